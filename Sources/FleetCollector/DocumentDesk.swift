import FleetDocuments
import FleetStore
import HealthReadings
import Logging

/// Takes documents of gateways that are known by name, wherever they come from, and says what becomes of them.
package struct DocumentDesk: Sendable {
    package let store: any CentralStore
    package let counters: CollectorCounters
    let intake: Intake
    let keys: [OpeningKey]
    let logger: Logger
    let now: @Sendable () -> Instant

    /// - Parameter keys: what opens sealed batches.
    package init(
        store: any CentralStore, counters: CollectorCounters = CollectorCounters(), keys: [OpeningKey] = [],
        logger: Logger, now: @escaping @Sendable () -> Instant = { .systemClock }
    ) {
        self.store = store
        self.counters = counters
        intake = Intake(store: store)
        self.keys = keys
        self.logger = logger
        self.now = now
    }

    /// Keeps a batch.
    ///
    /// - Parameter gateway: who sends it, as its certificate, its token or the routing key proves.
    /// - Returns: the receipt, after the batch is durable.
    package func keep(_ octets: [UInt8], from gateway: GatewayID) async throws(DocumentFailure) -> FleetReceipt {
        let batch: FleetBatch
        do { batch = try FleetBatch.read(octets, from: gateway, keys: keys) } catch {
            throw refuse(.document(error), gateway, .readings)
        }
        let storing = counters.beginStoring(at: now())
        defer { counters.endStoring(storing) }
        do {
            let outcome = try await intake.keep(batch.arrived(at: now()))
            counters.add(outcome, at: now())
            logger.debug(
                "a batch was stored",
                metadata: [
                    "gateway": "\(gateway)", "batch": "\(batch.number)", "stored": "\(outcome.stored)",
                    "revised": "\(outcome.revised)", "repeated": "\(outcome.repeated)",
                ])
            let ignored = Set(outcome.ignored)
            if !ignored.isEmpty {
                logger.notice(
                    "readings of a batch were ignored: something else is kept under a higher number",
                    metadata: [
                        "gateway": "\(gateway)", "batch": "\(batch.number)", "ignored": "\(ignored.count)",
                        "highest": "\(outcome.highest ?? 0)",
                    ])
            }
            return FleetReceipt(
                gateway: gateway, batch: batch.number,
                stored: batch.ids.filter { !ignored.contains($0.description) }, highestBatch: outcome.highest)
        } catch {
            if case .badValue = error {} else { counters.failStore(at: now()) }
            throw failure(error, gateway, .readings)
        }
    }

    /// Notes what a gateway says about itself: its status, or its hello.
    ///
    /// - Returns: what the gateway is told. A hello is answered with the receipts of the batches it names that are stored, and
    ///   with the settings that the gateway shall have, also if it has them: the answer shows that they cut nothing off. A
    ///   status is answered with settings that the gateway does not know.
    package func note(
        _ octets: [UInt8], _ part: FleetTopic.Part, from gateway: GatewayID
    ) async throws(DocumentFailure) -> FleetAnswer {
        var sighting = GatewaySighting(gateway: gateway.description, heard: now())
        var (unconfirmed, state): ([Int64], FleetConfigurationState) = ([], FleetConfigurationState())
        var said: FleetReport?
        do {
            if part == .hello {
                let hello = try FleetHello(octets, from: gateway)
                sighting.version = hello.version
                (unconfirmed, state) = (hello.unconfirmed, hello.configuration)
            } else if case .online(let report) = try FleetStatus(octets, from: gateway) {
                sighting.version = report.version
                sighting.backlog = Int64(report.backlog.waiting + report.backlog.handedOver)
                sighting.oldest = report.backlog.oldest
                sighting.status = FleetStatus.online(report).document.text
                (said, state) = (report, report.configuration)
            } else {
                // The broker says this in the gateway's place: the gateway itself wasn't heard of.
                logger.info("a gateway's connection was lost", metadata: ["gateway": "\(gateway)"])
                return FleetAnswer(gateway: gateway)
            }
        } catch {
            throw refuse(.document(error), gateway, part)
        }
        sighting.configuration = state.document.text
        do {
            let former = try await store.note(sighting)
            if let said { nameWhatCannotBe(said, after: former) }
            var answer = FleetAnswer(gateway: gateway)
            if part == .hello {
                answer.highestBatch = try await store.highestBatch(of: gateway.description)
                answer.receipts = try await receipts(of: unconfirmed, gateway, highest: answer.highestBatch)
            }
            if let wanted = try await configuration(for: gateway), part == .hello || Self.isNews(wanted, to: state) {
                answer.configuration = wanted
            }
            return answer
        } catch {
            if case .badValue = error {} else { counters.failStore() }
            throw failure(error, gateway, part)
        }
    }

    /// Names what a status shows of a gateway that somebody has to look after: another machine with its id, or a wrong clock.
    private func nameWhatCannotBe(_ report: FleetReport, after former: String?) {
        func name(_ code: String, _ words: Logger.Message) {
            counters.doubt(code)
            logger.warning(words, metadata: ["gateway": "\(report.gateway)", "reason": "\(code)"])
        }
        if report.sentAt > now().advanced(bySeconds: Self.clockSlack) {
            name("clock_ahead", "a gateway's clock is ahead of this machine's: one of them is wrong")
        }
        guard let former, case .online(let before)? = try? FleetStatus(Array(former.utf8)),
            report.sentAt >= before.sentAt,
            report.started < before.started.advanced(bySeconds: -Self.clockSlack)
        else { return }
        // A program that is started again started later. Of two that answer to the same id, one started earlier.
        name("same_id_twice", "two machines use the same gateway's id, or its clock was set back")
    }

    /// What may be wrong with a status.
    static let doubts = ["clock_ahead", "same_id_twice"]

    /// Whether a gateway in a state does not know settings. A version that it refused may have had any number.
    private static func isNews(_ wanted: FleetConfiguration, to state: FleetConfigurationState) -> Bool {
        let known = state.version ?? 0
        return state.state == .refused ? wanted.version != known : wanted.version > known
    }

    /// By how many seconds clocks may differ.
    private static let clockSlack: Int64 = 120

    /// The settings that a gateway shall have; `nil`: nobody has said.
    package func configuration(for gateway: GatewayID) async throws(CentralStoreError) -> FleetConfiguration? {
        guard let desired = try await store.configuration(of: gateway.description) else { return nil }
        // A later program may have written a key that this one doesn't know: better none than a part.
        guard let settings = try? FleetConfiguration.settings(Array(desired.settings.utf8)) else { return nil }
        return FleetConfiguration(gateway: gateway, version: desired.version, settings: settings)
    }

    private func receipts(
        of batches: [Int64], _ gateway: GatewayID, highest: Int64?
    ) async throws(CentralStoreError) -> [FleetReceipt] {
        guard !batches.isEmpty else { return [] }
        let stored = try await store.storedIDs(of: gateway.description, batches: batches)
        return stored.sorted { $0.key < $1.key }.map { number, ids in
            FleetReceipt(
                gateway: gateway, batch: number,
                stored: ids.compactMap { ReadingID($0) }.prefix(FleetBatch.mostItems).map { $0 },
                highestBatch: highest.flatMap { $0 > number ? $0 : nil })
        }
    }

    private func failure(
        _ error: CentralStoreError, _ gateway: GatewayID, _ part: FleetTopic.Part
    ) -> DocumentFailure {
        guard case .badValue(let words) = error else { return .store(error) }
        return refuse(.badValue(words), gateway, part)
    }

    private func refuse(
        _ failure: DocumentFailure, _ gateway: GatewayID, _ part: FleetTopic.Part
    ) -> DocumentFailure {
        counters.refuse(failure.code)
        logger.warning(
            "a document was refused",
            metadata: [
                "gateway": "\(gateway)", "document": "\(part.rawValue)", "reason": "\(failure.code)",
                "words": "\(failure.words)",
            ])
        return failure
    }
}

extension FleetReport {
    /// When the gateway's service was started, by the gateway's clock.
    fileprivate var started: Instant { sentAt.advanced(bySeconds: -uptimeSeconds) }
}
