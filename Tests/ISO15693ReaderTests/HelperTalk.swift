import EmulatedReader
import Foundation
import HelperProcesses
import NFCPipe

/// The helper program, asked in its own language.
struct HelperTalk {
    let process: HelperProcess
    private let lines = Lines()

    private final class Lines { var buffer = NFCLineBuffer() }

    struct Silence: Error {}

    init() throws {
        process = try HelperProcess(path: Helper.path, environment: ["SWIFT_BACKTRACE": "enable=no"])
        guard case .hello(NFCReply.version, _) = try next() else { throw Silence() }
    }

    func ask(_ request: NFCRequest) throws -> NFCReply { try ask(line: request.line) }

    func ask(line: String) throws -> NFCReply {
        try process.send(Array((line + "\n").utf8))
        return try next()
    }

    private func next() throws -> NFCReply {
        while true {
            if let line = try lines.buffer.next() { return try NFCReply(line: line) }
            guard let octets = try process.receive(within: .seconds(60)) else { throw Silence() }
            lines.buffer.append(octets)
        }
    }
}

extension EmulatedReader {
    /// What libnfc calls it: by its port behind the link.
    var openName: String {
        let port = try? FileManager.default.destinationOfSymbolicLink(atPath: path)
        return "pn532_uart:\(port ?? path)"
    }
}
