import Foundation
import GatewaySettings
import HelperProcesses

/// Makes a PDF of pages with `healthrelay-report`, a program of its own.
package enum ReportPDF {
    /// How long the helper may take between two parts of its answer.
    private static let patience: Duration = .seconds(60)
    private static let most = 256 << 20

    /// Makes a PDF.
    ///
    /// - Parameter pages: the pages, as `ReportOperation.Format.pages` gives them.
    /// - Throws: `Problem` where the program is missing, may not be run, or fails.
    package static func make(of pages: [UInt8]) async throws -> [UInt8] {
        try await withCheckedThrowingContinuation { continuation in
            // Talking to the helper blocks its thread, for seconds with a long report.
            Thread.detachNewThread { continuation.resume(with: Result { try pdf(of: pages) }) }
        }
    }

    private static func pdf(of pages: [UInt8]) throws(Problem) -> [UInt8] {
        let path: String
        switch HelperProgram.find("healthrelay-report") {
        case .found(let found): path = found
        case .notPermitted(let found, _):
            throw Problem("report_helper_not_permitted", .notPermitted, "\(found) may not be run by this user")
        case .missing(let expected):
            throw Problem(
                "report_helper_missing", .unavailable,
                "healthrelay-report, which makes PDFs, is not installed"
                    + (expected.map { "; expected at \($0)" } ?? ""),
                hint: "install it, or use --format html and print from a browser")
        }
        do throws(HelperError) {
            let helper = try HelperProcess(path: path)
            let total = UInt32(clamping: pages.count)
            try helper.send((0..<4).map { UInt8(truncatingIfNeeded: total >> (24 - 8 * $0)) })
            try helper.send(pages)
            var answer: [UInt8] = []
            while let octets = try helper.receive(within: patience) {
                answer += octets
                if let size = size(answer) {
                    guard size <= most else { throw .ended(.exited(0), words: "its answer is too large") }
                    if answer.count >= 4 + size {
                        helper.finish(within: .seconds(1))
                        return Array(answer[4..<(4 + size)])
                    }
                }
            }
            helper.kill()
            throw .ended(.exited(0), words: "it took too long")
        } catch {
            let reason =
                switch error {
                case .cannotRun(_, let code): String(cString: strerror(code))
                case .ended(let end, let words): words ?? "\(end)"
                }
            throw Problem(
                "report_helper_failed", .unavailable, "healthrelay-report made no PDF: \(reason)",
                hint: "use --format html and print from a browser")
        }
    }

    private static func size(_ answer: [UInt8]) -> Int? {
        answer.count < 4 ? nil : answer.prefix(4).reduce(0) { $0 << 8 | Int($1) }
    }
}
