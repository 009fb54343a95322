import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings
import Synchronization

struct Page: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "page", abstract: "Make a link that opens the page in one browser.",
        discussion: """
            Prints the link, and opens it if there is a display. It works once, for five minutes. The browser's \
            session is then listed by `healthrelay client list` and ended by `healthrelay client revoke`.
            """)
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        let settings = try global.settings()
        global.startLogging(settings)
        let answer = AnswerCollector()
        try await OperationCommand.run(OperationRequest(.page, json: true), global, settings, answer)
        let line = answer.line
        guard !global.json else { return Terminal.data(line) }
        let document = try JSONDecoder().decode(Document.self, from: Data(line.utf8))
        Terminal.data(document.url)
        let isOpening = Browser.open(document.url)
        Terminal.error((isOpening ? "Opening it. " : "") + "The link works once, until \(document.expiresAt).")
    }

    private struct Document: Decodable {
        var url: String
        var expiresAt: String

        enum CodingKeys: String, CodingKey {
            case url
            case expiresAt = "expires_at"
        }
    }
}

/// Keeps what an operation prints.
private final class AnswerCollector: OperationOutput {
    private let lines = Mutex<[String]>([])

    var line: String { lines.withLock { $0.last ?? "" } }

    func data(_ line: String) { lines.withLock { $0.append(line) } }
    func note(_ line: String) { Terminal.error(line) }
}

/// The person's browser.
private enum Browser {
    /// Opens a link, where there is a display.
    ///
    /// The link is a secret, and every user of the machine sees a program's arguments. So the browser is given a file that
    /// this user alone can read, and which sends it on.
    ///
    /// - Returns: whether a browser was started.
    static func open(_ link: String) -> Bool {
        let environment = ProcessInfo.processInfo.environment
        func value(_ name: String) -> String? { environment[name].flatMap(\.nonEmpty) }
        guard value("DISPLAY") != nil || value("WAYLAND_DISPLAY") != nil, let folder = value("XDG_RUNTIME_DIR"),
            let file = write(link, in: folder)
        else { return false }
        let browser = value("BROWSER")?.split(separator: ":").first.map(String.init) ?? "xdg-open"
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [browser, "file://" + file]
        for stream in [\Process.standardOutput, \.standardError, \.standardInput] {
            process[keyPath: stream] = FileHandle.nullDevice
        }
        return (try? process.run()) != nil
    }

    /// The page that sends a browser on; `nil` where it cannot be written.
    private static func write(_ link: String, in folder: String) -> String? {
        let path = folder + "/healthrelay-page.html"
        let target = link.escaping(["&": "&amp;", "\"": "&quot;"])
        let text =
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">"
            + "<meta http-equiv=\"refresh\" content=\"0; url=\(target)\"><a href=\"\(target)\">HealthRelay</a>\n"
        unlink(path)
        let descriptor = Glibc.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return nil }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        return (try? file.write(contentsOf: Data(text.utf8))) == nil ? nil : path
    }
}
