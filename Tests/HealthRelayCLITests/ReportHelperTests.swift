import Foundation
import Testing

/// `healthrelay-report` by itself, with pages that nobody should send it.
@Suite("The program that makes PDFs", .timeLimit(.minutes(5))) struct ReportHelperTests {
    private static let executable = Tool.executable.deletingLastPathComponent().appendingPathComponent(
        "healthrelay-report")

    private static func part(_ octets: Data) -> Data {
        let length = UInt32(octets.count)
        return Data((0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * $0)) }) + octets
    }

    private static func job(_ pages: [String], title: String = "Title\nMaker\n2026-11-25T10:00:00") -> Data {
        part(([title] + pages).map { part(Data($0.utf8)) }.reduce(Data(), +))
    }

    private struct Answer {
        var status: Int32
        var reason: Process.TerminationReason
        var octets: Data
        var words: String
    }

    private static func answer(_ message: Data) throws -> Answer {
        let process = Process()
        let (input, output, errors) = (Pipe(), Pipe(), Pipe())
        process.executableURL = executable
        (process.standardInput, process.standardOutput, process.standardError) = (input, output, errors)
        signal(SIGPIPE, SIG_IGN)
        try process.run()
        let writing = Thread {
            try? input.fileHandleForWriting.write(contentsOf: message)
            try? input.fileHandleForWriting.close()
        }
        writing.start()
        let octets = try output.fileHandleForReading.readToEnd() ?? Data()
        let words = try errors.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Answer(
            status: process.terminationStatus, reason: process.terminationReason, octets: octets,
            words: String(decoding: words, as: UTF8.self))
    }

    private static func page(_ body: String, _ head: String = "", size: String = "width=\"595pt\" height=\"842pt\"")
        -> String
    {
        "\(head)<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" \(size)>\(body)</svg>"
    }

    @Test("pages become a PDF with as many pages, the same each time")
    func pages() throws {
        let job = Self.job([Self.page("<text x=\"20\" y=\"40\">Seite 1 äöü</text>"), Self.page("<circle r=\"9\"/>")])
        let (first, second) = (try Self.answer(job), try Self.answer(job))
        #expect(first.status == 0 && first.octets == second.octets, "\(first.words)")
        #expect(first.octets.dropFirst(4).starts(with: Data("%PDF-".utf8)))
        let length = first.octets.prefix(4).reduce(0) { $0 << 8 | Int($1) }
        #expect(first.octets.count == length + 4)
        #expect(String(decoding: first.octets, as: UTF8.self).contains("/Count 2"))
    }

    @Test("what is no job ends with 65 and words, and no PDF")
    func malformed() throws {
        let good = Self.job([Self.page("")])
        let cases: [(Data, String)] = [
            (Data(), "found 0"), (good.dropLast(1), "expected"), (Data([0xFF, 0xFF, 0xFF, 0xFF]), "at most"),
            (Self.part(Data([0, 0, 0, 9, 1])), "a part of 9 octets"), (Self.job([]), "1 to 4000 pages"),
            (Self.job(["no page"]), "page 1: expected SVG"),
            (Self.job([Self.page("", size: "")]), "a width and a height"),
            (Self.job([Self.page("", size: "width=\"1e9\" height=\"3\"")]), "a width and a height"),
            (Self.job([Self.page("<text>")]), "page 1: expected SVG"),
        ]
        for (message, words) in cases {
            let answer = try Self.answer(message)
            #expect(answer.status == 65 && answer.reason == .exit && answer.octets.isEmpty, "\(words): \(answer)")
            #expect(answer.words.contains(words), "\(answer.words)")
        }
    }

    @Test("a page reads no file and grows without bound in nothing")
    func hostile() throws {
        let secret = FileManager.default.temporaryDirectory.appendingPathComponent("report-\(UUID().uuidString).svg")
        try Self.page("<rect width=\"595\" height=\"842\" fill=\"#ff0000\"/>").write(
            to: secret, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(at: secret) }
        let plain = try Self.answer(Self.job([Self.page("")])).octets.count
        for reference in ["file://\(secret.path)", secret.path, "http://127.0.0.1/a.svg"] {
            let answer = try Self.answer(
                Self.job([Self.page("<image width=\"99\" height=\"99\" xlink:href=\"\(reference)\"/>")]))
            #expect(answer.status == 0 && abs(answer.octets.count - plain) < 200, "\(answer.words)")
        }
        let entity = try Self.answer(
            Self.job([Self.page("<text>&x;</text>", "<!DOCTYPE svg [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>")]))
        #expect(!String(decoding: entity.octets, as: UTF8.self).contains("root:"))
        let laughs =
            "<!DOCTYPE svg [<!ENTITY a \"ha\">"
            + (1...40).map {
                "<!ENTITY a\($0) \"&a\($0 == 1 ? "" : String($0 - 1));&a\($0 == 1 ? "" : String($0 - 1));\">"
            }
            .joined() + "]>"
        let growth = try Self.answer(Self.job([Self.page("<text>&a40;</text>", laughs)]))
        #expect(growth.octets.count < 100_000)
    }

    @Test("a call without a job says what the program is for")
    func usage() async throws {
        let help = try await Tool.other(Self.executable.path, ["--help"])
        #expect(help.status == 0)
        #expect(try await Tool.other(Self.executable.path, ["report.svg"]).status == 64)
    }
}
