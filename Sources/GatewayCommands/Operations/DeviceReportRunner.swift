import DeviceReports
import GATTClient
import GatewaySettings
import HealthDevices
import HealthReadings
import Synchronization

/// `devices report`: reads a device as `read` does, notes what is said, and yields it without anything of its owner.
///
/// The values, names and times that were noted never leave this process: what goes through the control socket is anonymous.
struct DeviceReportRunner {
    let gateway: Gateway
    let output: any OperationOutput

    /// Octets that are yielded at once.
    private static let chunk = 32 << 10

    func run(_ operation: DeviceReportOperation) async throws {
        let address = try DeviceAddress.argument(operation.address)
        let (recorder, radio) = (ExchangeRecorder(), try gateway.radioSource.requireRadio())
        let manager = try gateway.requireManager().over(RecordedRadio(radio, recorder))
        if let problem = await gateway.clockProblem() { throw problem }
        try await output.note("Waiting for \(address) …")
        let model = Mutex<String?>(nil)
        var course: ModelReport.Course?
        // Who is being read already is waited for: that contact was not noted.
        for _ in 0..<2 where course == nil {
            let (output, name) = (output, address.description)
            do {
                let summary = try await manager.read(
                    address, within: .seconds(operation.seconds), allRecords: operation.allRecords
                ) { event in
                    switch event {
                    case .began(let contact): model.withLock { $0 = contact.device.model }
                    case .progress(let received, let announced):
                        try? await output.progress(
                            TransferProgress(device: name, received: received, announced: announced))
                    case .stored, .ended: break
                    }
                }
                guard Self.exchange(recorder) != nil else { continue }
                course = .init(isComplete: summary.isComplete, records: summary.received, error: summary.error)
            } catch {
                guard !(error is CancellationError), Self.exchange(recorder) != nil,
                    let problem = Problem(describing: error)
                else { throw error }
                course = .init(isComplete: false, records: 0, error: problem.code)
            }
        }
        guard let course, let exchange = Self.exchange(recorder) else {
            throw Problem(
                "device_busy", .tryAgain, "\(address) was being read already, and that contact was not noted",
                hint: "try again when the device has something new")
        }
        let anonymous = Anonymiser(catalogue: gateway.catalogue).anonymous(exchange)
        let report = ModelReport(
            anonymous, model: model.withLock(\.self), course: course, software: GatewayVersion.current)
        let octets = Array(report.document.text.utf8) + [UInt8(ascii: "\n")]
        for piece in octets.pieces(of: Self.chunk) { try await output.octets(piece) }
    }

    /// The last contact in which the device said anything, or what a device advertised that is never connected.
    private static func exchange(_ recorder: ExchangeRecorder) -> Exchange? {
        recorder.exchanges.last { !$0.steps.isEmpty } ?? recorder.exchanges.last
            ?? recorder.heard.map { Exchange($0, start: $0.seenAt) }
    }
}
