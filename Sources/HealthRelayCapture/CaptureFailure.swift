import Glibc

/// Why there is no recording.
struct CaptureFailure: Error, Sendable {
    /// A snake_case code for programs.
    var code: String
    /// One line for people.
    var message: String
    /// The exit status, of sysexits.h.
    var status: Int32

    static func usage(_ message: String) -> CaptureFailure { .init(code: "usage", message: message, status: 64) }

    static func noAdapter(_ name: String?) -> CaptureFailure {
        let named = name.map { " \($0)" } ?? ""
        return .init(code: "no_adapter", message: "there is no Bluetooth adapter\(named)", status: 69)
    }

    /// A system call failed.
    static func system(_ what: String, _ code: Int32 = errno) -> CaptureFailure {
        .init(code: "capture_io", message: "\(what): \(reason(code))", status: 74)
    }

    static func reason(_ code: Int32) -> String { strerror(code).map { String(cString: $0) } ?? "error \(code)" }
}

/// The lines on standard error: a kind, a code and a text, with tabs between them.
///
/// `problem` says why the program ends, and is followed by no other; `note` says what happened: `adapter` (which one is
/// recorded, once the channel is open), `adapter_gone`, `adapter_back`; `total` gives, at the end, how many `packets` were
/// recorded and how many were `dropped`.
enum Report {
    static func problem(_ failure: CaptureFailure) { line("problem", failure.code, failure.message) }
    static func note(_ code: String, _ text: String) { line("note", code, text) }
    static func total(_ code: String, _ count: UInt64) { line("total", code, String(count)) }
    static func help(_ text: String) { write(text, to: 1) }

    private static func line(_ kind: String, _ code: String, _ text: String) {
        let safe = text.map { $0.isNewline || $0 == "\t" ? " " : $0 }
        write("\(kind)\t\(code)\t\(String(safe))\n", to: 2)
    }

    private static func write(_ text: String, to descriptor: Int32) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { return }
        }
    }
}
