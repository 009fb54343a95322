import EmulatedRadio
import Foundation
import GATTClient
import LogLines
import Logging
import ServiceLifecycle
import Synchronization
import TestSupport
import Testing

@testable import GatewayCommands
@testable import GatewayService
@testable import GatewaySettings

/// `run` as a whole over an emulated radio, with its control socket and its page.
final class RunnerBench: Sendable {
    let directory: URL
    let radio: EmulatedRadio
    let log = LogLines()
    let state: StateDirectory
    private let said = Mutex<[String]>([])
    private let page = Mutex<String?>(nil)
    private let group: ServiceGroup
    private let running: Task<Void, any Error>

    init(
        _ meters: [EmulatedMeter] = [], adapter: AdapterState = .emulated, showsValues: Bool = true,
        settings: [String: String] = [:]
    ) async throws {
        directory = try GatewayBench.scratch()
        radio = EmulatedRadio(meters, adapter: adapter)
        state = StateDirectory(flag: directory.appendingPathComponent("state").path, environment: [:])
        let announcements = Announcements()
        let (radio, log) = (radio, log)
        let logger = log.logger()
        var flags = GatewayBench.zone.merging(["http.listen": "127.0.0.1:0", "http.local": "trusted"]) { $1 }
        flags.merge(settings) { $1 }
        let runner = GatewayRunner(
            settings: try Settings(
                environment: [:], flags: flags, managed: ManagedSettings(stateDirectory: state.path)), state: state,
            radio: { settings, _ in settings["bluetooth.adapter"] == "none" ? nil : radio }, showsValues: showsValues,
            logger: logger
        ) { announcements.take($0) }
        let group = ServiceGroup(services: [runner], logger: logger)
        self.group = group
        running = Task { try await group.run() }
        announcements.handOver { [self] in take($0) }
        let isListening = try await eventually {
            try ControlClient(socket: state.socket) != nil && page.withLock { $0 != nil }
        }
        #expect(isListening)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    /// What a person in front of it was told.
    var lines: [String] { said.withLock(\.self) }
    /// The page's address.
    var pageAddress: String { page.withLock { $0 ?? "" } }

    private func take(_ announcement: GatewayRunner.Announcement) {
        switch announcement {
        case .page(let address, _), .unclaimed(let address): page.withLock { $0 = address }
        case .link(let link), .setup(let link): page.withLock { $0 = link.url }
        case .bluetooth(let state): said.withLock { $0.append(state.line) }
        case .reader(let state): said.withLock { $0.append(state.line) }
        case .way(let line): said.withLock { $0.append(line) }
        case .notDelivering, .replayed, .settings: break
        }
    }

    /// What an operation through the control socket prints.
    func lines(_ operation: GatewayCommands.Operation, output: Collected = Collected()) async throws -> [String] {
        try await #require(ControlClient(socket: state.socket)).run(
            OperationRequest(operation, json: true), output: output)
        return output.data
    }

    /// As SIGTERM does; returns when everything has ended.
    func stop() async throws {
        await group.triggerGracefulShutdown()
        try await running.value
    }
}

/// Announcements that come before anyone can take them.
private final class Announcements: Sendable {
    private struct State {
        var early: [GatewayRunner.Announcement] = []
        var taker: (@Sendable (GatewayRunner.Announcement) -> Void)?
    }

    private let state = Mutex(State())

    func take(_ announcement: GatewayRunner.Announcement) {
        let taker = state.withLock { state in
            if state.taker == nil { state.early.append(announcement) }
            return state.taker
        }
        taker?(announcement)
    }

    func handOver(_ taker: @escaping @Sendable (GatewayRunner.Announcement) -> Void) {
        let early = state.withLock { state in
            state.taker = taker
            return state.early
        }
        early.forEach(taker)
    }
}
