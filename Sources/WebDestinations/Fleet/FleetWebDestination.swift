import FleetDelivery
import FleetDocuments
import HealthReadings
import Logging
import OutgoingHTTP
import ReadingDelivery
import ReadingStore

/// Delivers batches of readings to the collectors of a fleet over HTTPS, without a broker between.
///
/// The answer to a batch is its receipt: the collector answers after its commit. A batch whose answer was lost is sent again
/// under its readings' ids, which changes nothing at the centre, or is confirmed by the answer to the next hello.
///
/// | the collector answers | failure |
/// |---|---|
/// | 200 with the receipt | none |
/// | 401, 403 | the destination's; needs a person |
/// | 400, 422 `bad_value` | the readings': fewer of them are tried |
/// | other 422: a newer schema, another seal | the destination's; needs a person |
/// | 413 | too large |
/// | 503 | the next host's turn; the destination's if all say so, with `Retry-After` |
public actor FleetWebDestination: Destination, ProvesIdentity {
    /// Its name in the settings.
    public nonisolated let name: String
    /// `fleet`.
    public nonisolated let kind = "fleet"
    /// What it can express.
    public nonisolated var rules: DestinationRules { FleetPacking.rules }
    /// Receipts of batches whose answers were lost.
    public nonisolated let acknowledgements: AsyncStream<Acknowledgement>

    let place: FleetWebPlace
    private let sender: FleetSender
    private let store: ReadingStore
    private let reporter: FleetReporter
    let limits: HTTPLimits
    let logger: Logger
    private let confirmations: AsyncStream<Acknowledgement>.Continuation
    /// The connections, by the identity that they show.
    var ways: [FleetWay] = []
    /// The host that is asked first.
    private var host = 0
    /// The highest number of a batch that the centre has said it has from this gateway.
    private var floor: Int64 = 0

    /// Creates a destination; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - name: the destination's name in the settings.
    ///   - store: where readings and devices are.
    ///   - place: where to deliver.
    ///   - sender: the program.
    ///   - logger: takes routes, statuses and kinds of failures; never a value or a secret.
    public init(
        name: String, store: ReadingStore, place: FleetWebPlace, sender: FleetSender,
        logger: Logger = Logger(label: "healthrelay.fleet")
    ) {
        self.init(name: name, store: store, place: place, sender: sender, limits: HTTPLimits(), logger: logger)
    }

    init(
        name: String, store: ReadingStore, place: FleetWebPlace, sender: FleetSender, limits: HTTPLimits,
        logger: Logger
    ) {
        self.name = name
        self.store = store
        self.place = place
        self.sender = sender
        self.logger = logger
        var limits = limits
        limits.responseBytes = FleetAnswer.mostBytes
        self.limits = limits
        reporter = FleetReporter(name, store: store, sender: sender)
        (acknowledgements, confirmations) = AsyncStream.makeStream()
    }

    deinit { confirmations.finish() }

    /// Parts of at most 100 readings and 64 KiB; a larger reading is a part of its own.
    public func parts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart] {
        FleetPacking.parts(batch)
    }

    /// Sends a batch.
    ///
    /// - Returns: what the collector's receipt says.
    public func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        let (items, outcomes) = FleetPacking.fitting(part)
        guard !items.isEmpty else { return outcomes }
        let first = try await post(items, of: part)
        var (stored, refused) = (Set(first.stored), first.refused)
        let ignored = items.filter { item in
            !stored.contains(item.reading.id) && !refused.contains { $0.id == item.reading.id }
        }
        if first.asksForHigherNumber, !ignored.isEmpty {
            let second = try await post(ignored, of: part)
            stored.formUnion(second.stored)
            refused += second.refused
        }
        let reasons = Dictionary(refused.map { ($0.id, $0.reason) }) { first, _ in first }
        return outcomes
            + items.map { item in
                let id = item.reading.id
                if stored.contains(id) { return Outcome(item.id, .delivered) }
                if let reason = reasons[id] { return Outcome(item.id, .refused(PrintableText.escaped(reason))) }
                return Outcome(item.id, .failed(Self.unexpected("the receipt does not name a reading of the batch")))
            }
    }

    private func post(_ items: [OutboxItem], of part: DeliveryPart) async throws(DeliveryFailure) -> FleetReceipt {
        let number = try await reporter.begin(items.map(\.id), above: floor)
        let batch = FleetBatch(
            gateway: try await gateway(), number: number, sentAt: sender.now(),
            readings: items.map { FleetPacking.document($0, number, part.person) })
        CrashPoint.reach("fleet.begun")
        let receipt = try await post(batch)
        CrashPoint.reach("fleet.acknowledged")
        return receipt
    }

    /// Has the centre remove readings.
    public func retract(_ items: [Retraction]) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        var asked: [ReadingID: RetractionKey] = [:]
        for item in items where asked.count < FleetBatch.mostItems {
            asked[item.reading] = asked[item.reading] ?? item.key
        }
        guard !asked.isEmpty else { return [:] }
        var results: [RetractionKey: Outcome.Result] = [:]
        // What the centre has under a higher number is sent once more.
        for _ in 0..<2 {
            let number = try await reporter.begin([], above: floor)
            let receipt = try await post(
                FleetBatch(
                    gateway: try await gateway(), number: number, sentAt: sender.now(), readings: [],
                    retracted: asked.keys.sorted().map { FleetRetraction(id: $0, revision: number) }))
            for id in receipt.stored { if let key = asked.removeValue(forKey: id) { results[key] = .delivered } }
            for refusal in receipt.refused {
                if let key = asked.removeValue(forKey: refusal.id) { results[key] = .refused(refusal.reason) }
            }
            guard receipt.asksForHigherNumber, !asked.isEmpty else { break }
        }
        return results
    }

    /// Asks for receipts and settings, and says in a rhythm how the gateway is.
    ///
    /// - Throws: a `DeliveryFailure` when no collector answers.
    public func run(_ context: DestinationContext) async throws {
        while try await store.standingHold(at: try await reporter.key()) != nil {
            try await Task.sleep(for: .seconds(5))
        }
        try await tellProblems()
        try await greet()
        context.wake()
        while !Task.isCancelled {
            try await tellProblems()
            let gateway = try await gateway()
            let status = try await reporter.status(gateway)
            if let answer = try await tell(status.document, .status) { try await take(answer) }
            try? await store.forgetConfirmedBatches(at: try await reporter.key())
            try? await Task.sleep(for: place.statusInterval)
        }
    }

    /// Says hello to each host. No reading is sent.
    public func test() async -> [Finding] {
        let hello: FleetHello
        do {
            hello = try await reporter.hello(try await gateway(), namesBatches: false)
        } catch {
            let failure = DeliveryFailure(error)
            return [Finding("settings", isGood: false, found: failure.message, cause: failure)]
        }
        var findings: [Finding] = []
        for (index, server) in place.servers.enumerated() {
            var words = WebFindings(server)
            words.words[.credentials] = "the collector knows \(hello.gateway)"
            words.words[.permission] = "the collector answers \(hello.gateway)"
            do throws(DeliveryFailure) {
                // With the connections that deliver: they have the certificate.
                _ = try await exchange(hello.document, .hello, at: index)
                findings += words.all()
            } catch {
                findings += words.failed(error)
            }
        }
        return findings + [await reporter.peopleFinding()].compactMap(\.self)
    }

    /// Proves to a collector that the newest certificate is taken.
    public func proveIdentity() async -> Bool {
        guard let newest = try? currentWays().first, newest.identity != nil, let gateway = try? await gateway(),
            let hello = try? await reporter.hello(gateway, namesBatches: false)
        else { return false }
        for index in place.servers.indices {
            do throws(DeliveryFailure) {
                _ = try await exchange(hello.document, .hello, at: index, by: newest)
                settle(newest, after: nil)
                return true
            } catch {
                guard error.refusesIdentity else { continue }
                if let identity = newest.identity {
                    place.credential.enrolment?.refused(identity, because: error.message)
                }
                return false
            }
        }
        return false
    }

    // MARK: Documents

    /// Says what is wrong although readings may be delivered; nothing if all is well.
    private func tellProblems() async throws {
        guard let enrolment = place.credential.enrolment else { return }
        try await store.setWarnings(enrolment.problem.map { [$0] } ?? [], of: try await reporter.key())
    }

    private func greet() async throws {
        let hello = try await reporter.hello(try await gateway(), namesBatches: true)
        if let answer = try await tell(hello.document, .hello) { try await take(answer) }
    }

    private func take(_ answer: FleetAnswer) async throws {
        floor = max(floor, answer.highestBatch ?? 0)
        for receipt in answer.receipts {
            await sender.steering.heard(.receipt)
            for acknowledgement in try await reporter.acknowledgements(of: receipt) {
                confirmations.yield(acknowledgement)
            }
        }
        // Its settings count from now on, and the answer to another hello shows that they cut nothing off.
        if let wanted = answer.configuration, await sender.steering.take(wanted) { try await greet() }
    }

    /// Sends what the gateway says of itself.
    private func tell(_ document: JSONValue, _ part: FleetTopic.Part) async throws(DeliveryFailure) -> FleetAnswer? {
        let answer = try await exchange(document, part)
        await sender.steering.heard(.answer)
        guard answer.status == 200 else { return nil }
        let gateway = try await gateway()
        do throws(FleetDocumentError) {
            return try FleetAnswer(answer.body, for: gateway)
        } catch {
            throw Self.unexpected("the answer is no document of a fleet: \(error)")
        }
    }

    private func post(_ batch: FleetBatch) async throws(DeliveryFailure) -> FleetReceipt {
        var document = batch.document
        if let key = place.sealing {
            do throws(FleetDocumentError) {
                document = try SealedBatch(batch, to: key).document
            } catch {
                throw DeliveryFailure(.destination, code: error.code, message: error.description, needsPerson: true)
            }
        }
        let answer = try await exchange(document, .readings)
        let receipt: FleetReceipt
        do throws(FleetDocumentError) {
            receipt = try FleetReceipt(answer.body, for: batch.gateway)
        } catch {
            throw Self.unexpected("the answer is no receipt: \(error)")
        }
        guard receipt.batch == batch.number else { throw Self.unexpected("the receipt is another batch's") }
        floor = max(floor, receipt.highestBatch ?? 0)
        await sender.steering.heard(.receipt)
        return receipt
    }

    /// Sends a document to the first host that can take it.
    ///
    /// - Throws: what the last host said if none could.
    private func exchange(
        _ document: JSONValue, _ part: FleetTopic.Part
    ) async throws(DeliveryFailure) -> HTTPAnswer {
        var last = DeliveryFailure(.destination, code: "no_connection", message: "no host is given")
        for _ in place.servers {
            do throws(DeliveryFailure) {
                return try await exchange(document, part, at: host)
            } catch {
                // What one collector says of a document, the others say too.
                guard case .destination = error.scope, error.isRetryable else { throw error }
                host = (host + 1) % place.servers.count
                let retryAfter = [last.retryAfter, error.retryAfter].compactMap(\.self).min()
                last = error
                last.retryAfter = retryAfter
            }
        }
        throw last
    }

    private static func unexpected(_ words: String) -> DeliveryFailure {
        var failure = DeliveryFailure(.target, code: "unexpected_answer", message: words)
        failure.mayHaveArrived = true
        return failure
    }

    private func gateway() async throws(DeliveryFailure) -> GatewayID {
        if let gateway = place.gateway ?? place.credential.enrolment?.identities().first?.gateway { return gateway }
        do { return try await reporter.gateway() } catch { throw DeliveryFailure(error) }
    }
}
