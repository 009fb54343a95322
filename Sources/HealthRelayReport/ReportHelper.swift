import CRSVG
import CSandbox
import Glibc

/// `healthrelay-report`: makes a PDF of pages in SVG, for another program.
///
/// A program of its own, because librsvg and cairo are under the LGPL and parse what stands on a page, and because the
/// gateway's keys belong to the same user: it enters a sandbox before it reads anything. It reads one job from its
/// standard input, writes the PDF to its standard output, each behind its length in four octets, the highest first, and
/// ends.
@main
enum ReportHelper {
    static func main() {
        guard CommandLine.arguments.count == 1 else {
            say("usage: healthrelay-report < pages\nmakes a PDF of pages in SVG, for healthrelay")
            exit(CommandLine.arguments.dropFirst().first == "--help" ? 0 : 64)
        }
        signal(SIGPIPE, SIG_IGN)
        HelperSandbox.enter()
        do throws(JobError) {
            let job = try Job(reading: Input.message())
            try Input.answer(PDFDocument.octets(of: job))
        } catch {
            say("healthrelay-report: \(error.words)")
            exit(65)
        }
        exit(0)
    }

    private static func say(_ text: String) { _ = (text + "\n").withCString { write(2, $0, strlen($0)) } }
}

/// Why a job is none.
struct JobError: Error {
    var words: String

    init(_ words: String) { self.words = words }
}

/// The two ends of the helper.
enum Input {
    /// The largest job: a year of a sensor on pages has some megabytes.
    static let most = 64 << 20

    /// The message: its length in four octets, then the octets.
    static func message() throws(JobError) -> [UInt8] {
        let length = try read(4).reduce(0) { $0 << 8 | Int($1) }
        guard length <= most else { throw JobError("expected a job of at most \(most) octets, found \(length)") }
        return try read(length)
    }

    private static func read(_ count: Int) throws(JobError) -> [UInt8] {
        var octets = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            let got = octets.withUnsafeMutableBytes {
                Glibc.read(0, $0.baseAddress?.advanced(by: filled), count - filled)
            }
            if got < 0, errno == EINTR { continue }
            guard got > 0 else { throw JobError("expected \(count) octets, found \(filled)") }
            filled += got
        }
        return octets
    }

    /// Writes the answer.
    static func answer(_ pdf: [UInt8]) throws(JobError) {
        let length = UInt32(clamping: pdf.count)
        var rest = ((0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * $0)) } + pdf)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw JobError("the answer cannot be written: \(String(cString: strerror(errno)))") }
            rest = rest.dropFirst(count)
        }
    }
}

/// What to make a PDF of: parts, each behind its length in four octets. The first has a line each for the title, the author
/// and the date (`2026-11-25T10:00:00Z`); the others are the pages.
struct Job {
    /// The most pages of a document.
    static let mostPages = 4000

    var title = ""
    var author = ""
    var date = ""
    var pages: [ArraySlice<UInt8>] = []

    init(reading octets: [UInt8]) throws(JobError) {
        var parts: [ArraySlice<UInt8>] = []
        var rest = octets[...]
        while !rest.isEmpty {
            guard rest.count >= 4 else { throw JobError("expected a length, found \(rest.count) octets") }
            let length = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(4)
            guard length <= rest.count else {
                throw JobError("expected a part of \(length) octets, found \(rest.count)")
            }
            parts.append(rest.prefix(length))
            rest = rest.dropFirst(length)
        }
        guard parts.count > 1, parts.count - 1 <= Self.mostPages else {
            throw JobError("expected 1 to \(Self.mostPages) pages, found \(max(0, parts.count - 1))")
        }
        let lines = String(decoding: parts[0], as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        if lines.indices.contains(0) { title = String(lines[0].prefix(500)) }
        if lines.indices.contains(1) { author = String(lines[1].prefix(500)) }
        if lines.indices.contains(2) { date = String(lines[2].prefix(40)) }
        pages = Array(parts.dropFirst())
    }
}
