import DeviceReports
import Foundation
import GATTClient
import GatewaySettings
import HCICapture
import HealthDevices
import HealthReadings

/// Captures read as if their devices were here: the live path, on the captures' own clock.
public struct CaptureReplay: Sendable {
    /// What a replay came to.
    public struct Report: Sendable {
        /// Contacts with devices.
        public var contacts = 0
        /// Records that the devices sent.
        public var records = 0
        /// Contacts that did not bring everything, with why.
        public var incomplete: [String] = []
        /// What could not be told or read.
        public var warnings: [ReplayWarning] = []
        /// What ended the replay early; everything before it was read.
        public var damage: CaptureError?
    }

    private let central: ReplayCentral

    /// A replay of capture files; their order does not matter.
    ///
    /// - Parameters:
    ///   - paths: capture files, and reports of devices.
    ///   - handles: what handles mean where a capture holds no discovery.
    ///   - address: the address of peers whose address a capture does not show, or shows as a private one alone.
    /// - Throws: `CaptureError` where a file cannot be opened or is no capture, `ModelReportError` where it is a damaged
    ///   report.
    public init(_ paths: [String], handles: HandleMap? = nil, address: DeviceAddress? = nil) throws {
        central = try ReplayCentral(sources: paths.map(Self.source), handleMap: handles, address: address)
    }

    private init(_ central: ReplayCentral) { self.central = central }

    /// The same replay with another address. The files aren't opened again: whoever opened them may read more files than whoever
    /// owns the store.
    ///
    /// - Parameter address: the address of peers whose address a capture does not show, or shows as a private one alone.
    package func with(address: DeviceAddress) -> CaptureReplay { CaptureReplay(central.with(address: address)) }

    /// Refuses reports of devices where what is read is stored, and so delivered: their values are made up.
    ///
    /// - Parameter paths: the files that are to be replayed into a store.
    /// - Throws: `Problem` with the first that is a report.
    public static func refuseReports(among paths: [String]) throws(Problem) {
        let report = paths.first { path in
            guard let file = FileHandle(forReadingAtPath: path) else { return false }
            defer { try? file.close() }
            return (try? file.read(upToCount: 64)).map { ModelReport.mayBegin($0) } ?? false
        }
        guard let report else { return }
        throw Problem(
            "report_not_stored", .usage,
            "\(report) is the report of a device: its values are made up, and are not stored as readings",
            hint: "print them with `replay --dry-run`, or count them with `replay --count`")
    }

    /// A capture as it is, and a report as the capture that it stands for.
    private static func source(_ path: String) throws -> ReplayCentral.Source {
        guard let file = FileHandle(forReadingAtPath: path) else { return .path(path) }
        defer { try? file.close() }
        // What cannot be read here is told by the one who reads captures.
        guard let beginning = try? file.read(upToCount: 64), ModelReport.mayBegin(beginning) else { return .path(path) }
        let rest = (try? file.read(upToCount: ModelReport.longest)) ?? Data()
        return .octets(try ModelReport(reading: Array(beginning + rest)).exchange.capture, name: path)
    }

    /// Reads every device of the captures, one after the other in the order they connected.
    ///
    /// - Throws: what the journal throws, and `CancellationError`. Damage of a file is in the report.
    public func run(
        with reader: MeterReader, report event: @escaping @Sendable (TransferEvent) async -> Void = { _ in }
    ) async throws -> Report {
        var report = Report()
        do {
            for try await peripheral in central.peripherals() {
                try Task.checkCancellation()
                report.contacts += 1
                let summary = try await reader.read(peripheral, report: event)
                report.records += summary.received
                if let error = summary.error {
                    report.incomplete.append(
                        "\(peripheral.advertisement.name ?? peripheral.advertisement.address?.description ?? "a device"): "
                            + "\(error.replacing("_", with: " ")) after \(summary.received) records")
                }
                for gap in summary.gaps {
                    report.incomplete.append("numbers \(gap.lowerBound) to \(gap.upperBound) are missing")
                }
            }
            // A stream of a task that is cancelled only ends.
            try Task.checkCancellation()
        } catch let error as CaptureError {
            report.damage = error
        }
        report.warnings = central.warnings
        return report
    }
}
