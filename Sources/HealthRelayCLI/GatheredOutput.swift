import GatewayCommands
import GatewaySettings
import Synchronization

/// Keeps the bytes that an operation yields.
final class GatheredOutput: OperationOutput {
    private let most: Int
    private let other: TerminalOutput
    private let state = Mutex<[UInt8]>([])

    /// - Parameters:
    ///   - most: how many bytes it keeps.
    ///   - other: where everything else goes.
    init(upTo most: Int, beside other: TerminalOutput) { (self.most, self.other) = (most, other) }

    var gathered: [UInt8] { state.withLock(\.self) }

    func data(_ line: String) throws { try other.data(line) }
    func note(_ line: String) { other.note(line) }
    func progress(_ progress: TransferProgress) { other.progress(progress) }
    func octets(_ octets: [UInt8]) throws {
        let fits = state.withLock { state in
            guard state.count + octets.count <= most else { return false }
            state += octets
            return true
        }
        guard fits else {
            throw Problem("report_too_large", .ourFault, "the report is larger than \(most >> 20) MiB")
        }
    }
}
