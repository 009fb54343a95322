import FleetDelivery
import FleetDocuments
import HealthReadings
import Logging
import MQTTLink
import ReadingDelivery
import ReadingStore

/// Delivers batches of readings to the centre of a fleet, through an MQTT broker.
///
/// The broker's acknowledgement only hands a reading over; the centre's receipt delivers it. Each batch has a number that is
/// noted in the store before the batch is sent, so that a receipt counts after a restart too, and for exactly the revision
/// that the batch had. The worker sends a batch without a receipt again.
///
/// | topic | what |
/// |---|---|
/// | `healthrelay/GATEWAY/readings` | batches, with readings that are taken back |
/// | `healthrelay/GATEWAY/hello` | after each connect: asks for receipts and configuration |
/// | `healthrelay/GATEWAY/status` | on connect and every 15 minutes; `{"online":false}` once the connection is lost |
/// | `healthrelay/GATEWAY/receipts`, `…/config` | what the centre answers |
public actor FleetDestination: BrokerDestination {
    /// Its name in the settings.
    public nonisolated let name: String
    /// `fleet`.
    public nonisolated let kind = "fleet"
    /// What it can express.
    public nonisolated var rules: DestinationRules { FleetDestination.rules }
    /// The centre's receipts, as they come.
    public nonisolated let acknowledgements: AsyncStream<Acknowledgement>

    /// What a fleet's destination can express.
    public static var rules: DestinationRules { FleetPacking.rules }

    let place: FleetPlace
    let sender: FleetSender
    let store: ReadingStore
    let logger: Logger
    let pace: FleetPace
    let confirmations: AsyncStream<Acknowledgement>.Continuation

    /// Whether the connection is kept between deliveries (``run(_:)``).
    var isKept = false
    var link: FleetLink?
    var opening: Task<DeliveryFailure?, Never>?
    /// The host that is tried next.
    var nextHost = 0
    /// The version that each host spoke last.
    var versions: [Int: MQTTVersion] = [:]
    nonisolated let reporter: FleetReporter

    /// Batches whose receipts somebody waits for.
    private var awaited: [Int64: Awaited] = [:]
    /// Batches that take readings back, and which ones, until their receipts have come.
    private var retracting: [Int64: Set<ReadingID>] = [:]
    /// What the centre has said of readings to take back, until the worker asks or they are sent again. By the reading: the
    /// store gives a retraction's number to another one later.
    private var takenBack: [ReadingID: Outcome.Result] = [:]
    /// Since when batches have been handed over and no receipt has come.
    var silentSince: ContinuousClock.Instant?
    /// What the centre said of batches that it could not store, by their numbers, until they are settled.
    private var troubles: [Int64: Trouble] = [:]
    /// Readings that the centre refused alone while nothing showed that it takes others.
    private var suspects: [ReadingID: (id: OutboxID, words: String)] = [:]
    /// How many receipts have said that something was stored.
    private var goodReceipts = 0
    /// The highest number of a batch that the centre has said it has from this gateway.
    private var floor: Int64 = 0
    /// Batches without a receipt, the newest alone: what has to be sent again at once is sent from here. The worker sends
    /// again what is no longer here.
    private var handed: [Int64: Handed] = [:]

    /// A batch that the broker has.
    private struct Handed {
        var items: [OutboxItem]
        var person: StoreUser
        /// What kept readings from the centre when these were handed over first.
        var holds: DeliveryHolds?
        /// Whether they are sent from ``handed``, beside the worker: what they say may be old by now.
        var isAgain = false
        /// Whether the centre has ignored these readings before.
        var isRepeat = false
        /// How many good receipts there were when the readings were handed over first.
        var goodBefore: Int?
    }

    /// A batch that the centre could not store.
    private struct Trouble {
        var failure: FleetReceipt.Failure
        /// What of it is neither stored nor refused; `nil` if its content is no longer known.
        var open: Set<ReadingID>?
    }

    /// How many batches ``troubles`` and ``retracting`` have at most.
    private static let mostTroubles = 100

    /// How many batches ``handed`` has at most: some megabytes.
    private static let mostHanded = 20

    private enum Awaited {
        case open
        case came(FleetReceipt)
        case waiting(CheckedContinuation<FleetReceipt?, Never>)
    }

    /// Creates a destination; nothing is connected before the first delivery or ``run(_:)``.
    ///
    /// - Parameters:
    ///   - name: the destination's name in the settings.
    ///   - store: where readings and devices are.
    ///   - place: where to deliver.
    ///   - sender: the program.
    ///   - logger: takes counts and kinds of failures; never a value or the centre's words.
    public init(
        name: String, store: ReadingStore, place: FleetPlace, sender: FleetSender,
        logger: Logger = Logger(label: "healthrelay.fleet")
    ) {
        self.init(name: name, store: store, place: place, sender: sender, pace: FleetPace(), logger: logger)
    }

    init(
        name: String, store: ReadingStore, place: FleetPlace, sender: FleetSender, pace: FleetPace,
        logger: Logger = Logger(label: "healthrelay.fleet")
    ) {
        self.name = name
        self.store = store
        self.place = place
        self.sender = sender
        self.pace = pace
        self.logger = logger
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
    /// - Returns: that the centre or the broker has the readings, as the place says; a reading that is too large for any
    ///   batch is refused.
    public func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        let link = try await linked()
        let (items, outcomes) = FleetPacking.fitting(part)
        guard !items.isEmpty else { return outcomes }
        let first = try await hand(Handed(items: items, person: part.person), on: link)
        guard place.waitsForReceipt else { return outcomes + items.map { Outcome($0.id, .delivered) } }
        // Fewer readings, or others, may be taken.
        if let failure = first?.failure, failure.isAboutReadings {
            throw DeliveryFailure(
                .items, code: failure.code, message: "the centre could not store the batch",
                serverSaid: PrintableText.escaped(failure.message))
        }
        var (stored, refused) = (Set(first?.stored ?? []), first?.refused ?? [])
        if let first, first.asksForHigherNumber {
            let ignored = items.filter { !first.names($0.reading.id) }
            if !ignored.isEmpty {
                let second = try await hand(Handed(items: ignored, person: part.person, isRepeat: true), on: link)
                stored.formUnion(second?.stored ?? [])
                refused += second?.refused ?? []
            }
        }
        let reasons = Dictionary(refused.map { ($0.id, $0.reason) }) { first, _ in first }
        return outcomes
            + items.map { item in
                if let reason = reasons[item.reading.id] { return Outcome(item.id, .refused(reason)) }
                return Outcome(item.id, stored.contains(item.reading.id) ? .delivered : .handedOver)
            }
    }

    /// Sends readings as a batch.
    ///
    /// - Returns: the receipt, if it is waited for here and came in time.
    private func hand(_ readings: Handed, on link: FleetLink) async throws(DeliveryFailure) -> FleetReceipt? {
        var readings = readings
        if readings.isAgain {
            // What was denied since must not go, for example. The worker sends again what still may, when its time is over.
            guard try await reporter.holds() == readings.holds else { return nil }
        } else if isKept, place.waitsForReceipt {
            readings.holds = try await reporter.holds()
        }
        let number = try await reporter.begin(readings.items.map(\.id), above: floor)
        if readings.isAgain {
            // Only now: what is revised from here on gets a higher number.
            let current = try await reporter.current(readings.items, in: number)
            readings.items = current
            if current.isEmpty { return nil }
        }
        let batch = FleetBatch(
            gateway: link.gateway, number: number, sentAt: sender.now(),
            readings: readings.items.map { FleetPacking.document($0, number, readings.person) })
        let isWaitedFor = place.waitsForReceipt && !isKept
        if isWaitedFor { awaited[number] = .open } else if place.waitsForReceipt { remember(readings, as: number) }
        defer { awaited[number] = nil }
        // A receipt for having taken them back says nothing any more, also if it comes later.
        let ids = readings.items.map(\.reading.id)
        for id in ids { takenBack[id] = nil }
        for earlier in retracting.keys { retracting[earlier]?.subtract(ids) }
        do throws(DeliveryFailure) {
            try await publish(batch, on: link)
        } catch {
            handed[number] = nil
            throw error
        }
        guard place.waitsForReceipt else { return nil }
        CrashPoint.reach("fleet.acknowledged")
        silentSince = silentSince ?? .now
        // Nobody listens for receipts between two commands that deliver.
        return isWaitedFor ? await receipt(of: number) : nil
    }

    private func remember(_ readings: Handed, as number: Int64) {
        var readings = readings
        readings.goodBefore = readings.goodBefore ?? goodReceipts
        handed[number] = readings
        while handed.count > Self.mostHanded, let oldest = handed.keys.min() { handed[oldest] = nil }
    }

    /// Sends again what the centre has ignored because it has it under a higher number.
    private func repeatIgnored(_ receipt: FleetReceipt) async {
        guard let readings = handed[receipt.batch] else { return }
        let ignored = readings.items.filter { !receipt.names($0.reading.id) }
        if ignored.isEmpty || receipt.asksForHigherNumber { handed[receipt.batch] = nil }
        guard !ignored.isEmpty, receipt.asksForHigherNumber, !readings.isRepeat, let link, link.connection.isOpen
        else { return }
        logger.notice(
            "readings are sent again under a higher number", metadata: ["readings": "\(ignored.count)"])
        do throws(DeliveryFailure) {
            _ = try await hand(
                Handed(
                    items: ignored, person: readings.person, holds: readings.holds, isAgain: true, isRepeat: true),
                on: link)
        } catch {
            logger.notice("readings could not be sent again", metadata: ["code": "\(error.code)"])
        }
    }

    /// Has the centre remove readings, and waits some seconds for its receipt. One that comes later counts when the worker
    /// asks again.
    public func retract(_ items: [Retraction]) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        var results: [RetractionKey: Outcome.Result] = [:]
        for item in items { results[item.key] = takenBack[item.reading] }
        for item in items { takenBack[item.reading] = nil }
        var asked: [ReadingID: RetractionKey] = [:]
        for item in items where results[item.key] == nil && asked.count < FleetBatch.mostItems {
            asked[item.reading] = asked[item.reading] ?? item.key
        }
        guard !asked.isEmpty, results.isEmpty else { return results }
        let link = try await linked()
        // What the centre has under a higher number is sent once more.
        for _ in 0..<2 {
            let receipt = try await retract(Set(asked.keys), on: link)
            guard place.waitsForReceipt else {
                return Dictionary(uniqueKeysWithValues: asked.values.map { ($0, .delivered) })
            }
            for (id, key) in asked {
                guard let result = takenBack.removeValue(forKey: id) else { continue }
                results[key] = result
                asked[id] = nil
            }
            guard let receipt, receipt.asksForHigherNumber, !asked.isEmpty else { break }
        }
        guard !results.isEmpty else {
            throw DeliveryFailure(
                .target, code: "no_receipt",
                message: "the broker has what is to be taken back, and the centre has sent no receipt")
        }
        return results
    }

    /// - Returns: the receipt, if it came in time.
    private func retract(
        _ asked: Set<ReadingID>, on link: FleetLink
    ) async throws(DeliveryFailure) -> FleetReceipt? {
        let number = try await reporter.begin([], above: floor)
        let batch = FleetBatch(
            gateway: link.gateway, number: number, sentAt: sender.now(), readings: [],
            retracted: asked.sorted().map { FleetRetraction(id: $0, revision: number) })
        awaited[number] = .open
        defer { awaited[number] = nil }
        if place.waitsForReceipt { retracting[number] = asked }
        while retracting.count > Self.mostTroubles, let oldest = retracting.keys.min() { retracting[oldest] = nil }
        try await publish(batch, on: link)
        guard place.waitsForReceipt else { return nil }
        silentSince = silentSince ?? .now
        return await receipt(of: number)
    }

    private func publish(_ batch: FleetBatch, on link: FleetLink) async throws(DeliveryFailure) {
        var document = batch.document
        if let key = place.sealing {
            do throws(FleetDocumentError) {
                document = try SealedBatch(batch, to: key).document
            } catch {
                throw DeliveryFailure(.destination, code: error.code, message: error.description, needsPerson: true)
            }
        }
        CrashPoint.reach("fleet.begun")
        let receipt: MQTTReceipt
        do throws(MQTTError) {
            receipt = try await link.connection.publish(link.message(document, .readings))
        } catch {
            throw DeliveryFailure(error)
        }
        // MQTT 5, reason 16: the broker has thrown it away.
        guard receipt.hasSubscribers != false else {
            throw DeliveryFailure(
                .destination, code: "nobody_receives",
                message: "the broker has nobody who receives \(FleetTopic(.readings, of: link.gateway))")
        }
    }

    // MARK: Receipts

    private func receipt(of number: Int64) async -> FleetReceipt? {
        if case .came(let receipt) = awaited[number] { return receipt }
        let timer = Task {
            try? await Task.sleep(for: pace.patience)
            giveUp(number)
        }
        defer { timer.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if Task.isCancelled {
                    continuation.resume(returning: nil)
                } else if case .came(let receipt) = awaited[number] {
                    continuation.resume(returning: receipt)
                } else {
                    awaited[number] = .waiting(continuation)
                }
            }
        } onCancel: {
            Task { await self.giveUp(number) }
        }
    }

    private func giveUp(_ number: Int64) { settle(number, nil) }

    private func settle(_ number: Int64, _ receipt: FleetReceipt?) {
        guard let state = awaited[number] else { return }
        if let receipt { awaited[number] = .came(receipt) }
        guard case .waiting(let continuation) = state else { return }
        if receipt == nil { awaited[number] = .open }
        continuation.resume(returning: receipt)
    }

    /// Takes what came on `receipts`.
    func take(receipt octets: [UInt8], of gateway: GatewayID) async {
        let receipt: FleetReceipt
        do throws(FleetDocumentError) {
            receipt = try FleetReceipt(octets, for: gateway)
        } catch {
            logger.notice("a receipt was not taken", metadata: ["code": "\(error.code)", "reason": "\(error)"])
            return
        }
        if let failure = receipt.failure {
            logger.warning(
                "the centre could not store a batch",
                metadata: ["batch": "\(receipt.batch)", "code": "\(PrintableText.escaped(failure.code))"])
            let readings = handed.removeValue(forKey: receipt.batch)
            note(failure, of: receipt.batch, readings)
            settle(receipt.batch, receipt)
            if let readings, failure.isAboutReadings { await divide(readings, failure) }
            await tellProblems()
            return
        }
        silentSince = nil
        end(troublesBy: receipt)
        floor = max(floor, receipt.highestBatch ?? 0)
        await sender.steering.heard(.receipt)
        if let asked = retracting.removeValue(forKey: receipt.batch) {
            for id in receipt.stored where asked.contains(id) { takenBack[id] = .delivered }
            for refusal in receipt.refused where asked.contains(refusal.id) {
                takenBack[refusal.id] = .refused(refusal.reason)
            }
        }
        settle(receipt.batch, receipt)
        do {
            for acknowledgement in try await reporter.acknowledgements(of: receipt) {
                confirmations.yield(acknowledgement)
            }
        } catch {
            // They are sent again when their time is over.
            logger.warning("a receipt could not be noted", metadata: ["code": "\(DeliveryFailure(error).code)"])
        }
        await repeatIgnored(receipt)
        await tellProblems()
    }

    // MARK: Batches that the centre could not store

    private func note(_ failure: FleetReceipt.Failure, of number: Int64, _ readings: Handed?) {
        let open = readings.map { Set($0.items.map(\.reading.id)) } ?? retracting[number]
        // The collector may say it twice.
        troubles[number] = Trouble(failure: failure, open: open ?? troubles[number]?.open)
        while troubles.count > Self.mostTroubles, let oldest = troubles.keys.min() { troubles[oldest] = nil }
    }

    /// What the centre said of the newest batch that it could not store and that is not settled; `nil` if there is none.
    func trouble() async -> FleetReceipt.Failure? {
        guard !troubles.isEmpty else { return nil }
        // What was in them may have been changed or erased.
        if let key = try? await key(), let open = try? await store.unconfirmedBatches(at: key, limit: 1), open.isEmpty,
            let others = try? await store.retractionCount(at: key), others == 0
        {
            troubles = [:]
        }
        return troubles.max { $0.key < $1.key }?.value.failure
    }

    /// Sends the halves of a batch that holds something the centre can't store. A reading that stands alone is refused by name
    /// once the centre has stored another: otherwise the centre itself may be what is wrong.
    private func divide(_ readings: Handed, _ failure: FleetReceipt.Failure) async {
        if let only = readings.items.first, readings.items.count == 1 {
            suspects[only.reading.id] = (only.id, PrintableText.escaped(failure.message))
            if goodReceipts > readings.goodBefore ?? goodReceipts { refuseSuspects() }
            return
        }
        let middle = readings.items.count / 2
        for items in [readings.items[..<middle], readings.items[middle...]] {
            guard let link, link.connection.isOpen else { return }
            var half = readings
            (half.items, half.isAgain) = (Array(items), true)
            do throws(DeliveryFailure) {
                _ = try await hand(half, on: link)
            } catch {
                // The worker sends it again.
                logger.notice("half a batch could not be sent", metadata: ["code": "\(error.code)"])
            }
        }
    }

    private func refuseSuspects() {
        for (id, suspect) in suspects {
            confirmations.yield(Acknowledgement([suspect.id], .refused(suspect.words)))
            settleTroubles { $0 == id }
        }
        suspects = [:]
    }

    /// Takes from the batches in trouble what a receipt settles.
    private func end(troublesBy receipt: FleetReceipt) {
        // What was in those is not known: this one may be it.
        for (number, trouble) in troubles
        where trouble.open == nil || receipt.storedThrough.map({ number <= $0 }) ?? false {
            troubles[number] = nil
        }
        settleTroubles(receipt.names)
        guard !receipt.stored.isEmpty else { return }
        for id in receipt.stored { suspects[id] = nil }
        goodReceipts += 1
        refuseSuspects()
    }

    private func settleTroubles(_ isSettled: (ReadingID) -> Bool) {
        for (number, trouble) in troubles {
            guard let open = trouble.open?.filter({ !isSettled($0) }) else { continue }
            troubles[number]?.open = open
            if open.isEmpty { troubles[number] = nil }
        }
    }

    /// The gateway's id.
    func gateway() async throws -> GatewayID {
        if let gateway = place.gateway ?? place.credentials?.identities().first?.gateway { return gateway }
        return try await reporter.gateway()
    }
}

extension FleetReceipt.Failure {
    /// Whether fewer readings, or others, may be taken.
    fileprivate var isAboutReadings: Bool { code == "bad_value" || code == "bad_document" }
}

extension FleetReceipt {
    /// Whether it says what became of a reading.
    fileprivate func names(_ id: ReadingID) -> Bool { stored.contains(id) || refused.contains { $0.id == id } }
}
