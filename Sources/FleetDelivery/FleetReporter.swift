import Crypto
import FleetDocuments
import Foundation
import HealthReadings
import ReadingDelivery
import ReadingStore

/// Writes what a gateway tells its centre about itself.
package struct FleetReporter: Sendable {
    private let name: String
    private let store: ReadingStore
    private let sender: FleetSender

    /// - Parameter name: the destination's name in the settings.
    package init(_ name: String, store: ReadingStore, sender: FleetSender) {
        self.name = name
        self.store = store
        self.sender = sender
    }

    /// The store's number of the destination.
    package func key() async throws -> DestinationKey { try await store.key(ofDestination: name) }

    /// The gateway's id where none is set: one that follows from the store.
    package func gateway() async throws -> GatewayID {
        let digest = SHA256.hash(data: Data("fleet \(try await store.gatewayID())".utf8)).hexadecimal()
        return try GatewayID("gw-" + digest.prefix(16))
    }

    /// What asks the centre for receipts and the configuration.
    ///
    /// - Parameter namesBatches: whether it names the batches whose receipts have not come.
    package func hello(_ gateway: GatewayID, namesBatches: Bool) async throws -> FleetHello {
        let open =
            namesBatches
            ? try await store.unconfirmedBatches(at: try await key(), limit: FleetHello.mostBatches) : []
        return FleetHello(
            gateway: gateway, sentAt: sender.now(), version: sender.version,
            configuration: await sender.steering.state(), unconfirmed: open)
    }

    /// How the gateway is.
    package func status(_ gateway: GatewayID) async throws -> FleetStatus {
        let key = try await key()
        let (groups, statistics) = (try await store.groupsWaiting(at: key), try await store.statistics(of: key))
        let devices = try await store.devices().filter(\.isPaired).map { device in
            FleetReport.Device(
                alias: DeviceAlias(device.description).description,
                batteryPercent: device.batteryPercent.map { min(100, Int($0)) }, lastSeen: device.lastSeen)
        }
        return .online(
            FleetReport(
                gateway: gateway, sentAt: sender.now(), version: sender.version, build: sender.build,
                uptimeSeconds: sender.uptime(), clock: await sender.clock(),
                backlog: FleetReport.Backlog(
                    waiting: groups.reduce(0) { $0 + $1.count },
                    handedOver: try await store.handedOverCount(at: key), refused: statistics.refused,
                    oldest: groups.map(\.oldest).min()),
                devices: devices, configuration: await sender.steering.state()))
    }
}

extension FleetReporter {
    /// What is wrong with the id of a person whose readings the centre is to get, before one of them is refused; `nil` if nothing
    /// is known to be.
    package func peopleFinding() async -> Finding? {
        guard let users = try? await store.users(), let rule = try? await store.rule(of: name) else { return nil }
        let current = try? await store.currentUser().key
        for user in users where rule.selection.people?.contains(user.clientUserID) ?? true {
            let person = user.clientUserID
            guard let words = FleetPacking.refusal(of: person) else { continue }
            // Somebody whose readings were moved to another person stays in the store.
            let page = try? await store.query(ReadingQuery(limit: 1, user: user.key))
            guard user.key == current || page?.readings.isEmpty == false else { continue }
            let failure = DeliveryFailure(.target, code: "person_id_too_long", message: words, needsPerson: true)
            return Finding(
                "delivery", isGood: false,
                found: "\(PrintableText.escaped(String(person.prefix(16))))…: \(words), and their readings are refused",
                mend: "give the person a shorter id in the settings, and move their readings to it: `healthrelay move`",
                cause: failure)
        }
        return nil
    }

    /// What a receipt says of the readings that are in the outbox: those that still say what they said in the batch.
    package func acknowledgements(of receipt: FleetReceipt) async throws -> [Acknowledgement] {
        let key = try await key()
        let ids = receipt.stored + receipt.refused.map(\.id)
        let known = try await store.outboxIDs(of: ids, inBatch: receipt.batch, at: key)
        var stored = receipt.stored.compactMap { known[$0] }
        if let number = receipt.storedThrough {
            let through = try await store.outboxIDs(throughBatch: number, at: key)
            let refused = Set(receipt.refused.compactMap { known[$0.id] })
            stored += through.filter { !refused.contains($0) }
        }
        return (stored.isEmpty ? [] : [Acknowledgement(stored)])
            + receipt.refused.compactMap { refusal in
                known[refusal.id].map { Acknowledgement([$0], .refused(PrintableText.escaped(refusal.reason))) }
            }
    }

    /// Begins a batch: its number is noted before it is sent.
    ///
    /// - Parameter floor: the highest number that the centre has said it has; 0 if it has said nothing.
    package func begin(_ ids: [OutboxID], above floor: Int64) async throws(DeliveryFailure) -> Int64 {
        let now = sender.now()
        do {
            return try await store.beginBatch(ids, at: try await key()) {
                FleetBatch.nextNumber(after: $0, above: floor, at: now)
            }
        } catch {
            throw DeliveryFailure(error)
        }
    }

    /// What keeps readings from the centre now.
    package func holds() async throws(DeliveryFailure) -> DeliveryHolds {
        do { return try await store.deliveryHolds(at: try await key()) } catch { throw DeliveryFailure(error) }
    }

    /// Those of a batch's items that still say what they said when it was begun.
    package func current(_ items: [OutboxItem], in batch: Int64) async throws(DeliveryFailure) -> [OutboxItem] {
        do {
            let known = try await store.outboxIDs(of: items.map(\.reading.id), inBatch: batch, at: try await key())
            return items.filter { known[$0.reading.id] == $0.id }
        } catch {
            throw DeliveryFailure(error)
        }
    }
}

extension FleetReceipt {
    /// Whether readings that it does not name are to be sent again at once: the centre has them under a number that is not
    /// lower than the batch's.
    package var asksForHigherNumber: Bool { failure == nil && highestBatch.map { $0 >= batch } ?? false }
}

/// Divides readings into batches.
package enum FleetPacking {
    /// What a fleet's destination can express.
    package static let rules = DestinationRules(
        kinds: ReadingKind.delivered, hasUniqueSeconds: false, needsSource: false, canRetract: true)
    /// How many bytes the readings of a batch have at most; the frame around them has some hundred.
    package static let mostBytes = FleetBatch.mostBytes - 1024

    /// A reading as a batch has it. A centre takes no empty name: somebody whom nobody has named is `nil`.
    package static func document(_ item: OutboxItem, _ revision: Int64, _ person: StoreUser) -> FleetReading {
        let name = person.clientUserID
        return FleetReading(item.reading, revision: revision, person: name.nonEmpty)
    }

    /// Parts of at most 100 readings and 64 KiB; a larger reading is a part of its own.
    package static func parts(_ batch: DeliveryBatch) -> [DeliveryPart] {
        var (parts, items, bytes): ([DeliveryPart], [OutboxItem], Int) = ([], [], 0)
        func end(isLast: Bool) {
            guard !items.isEmpty else { return }
            parts.append(DeliveryPart(target: batch.target, person: batch.person, items: items, isLast: isLast))
            (items, bytes) = ([], 0)
        }
        for item in batch.items {
            let size = document(item, FleetSchema.largestNumber, batch.person).size
            if items.count == FleetBatch.mostItems || bytes + size > FleetBatch.usualBytes { end(isLast: false) }
            items.append(item)
            bytes += size
        }
        end(isLast: batch.isLast)
        return parts
    }

    /// Why a centre takes no reading of a person; `nil`: it takes them.
    package static func refusal(of person: String) -> String? {
        let bytes = person.utf8.count
        guard bytes > FleetReading.mostPersonBytes else { return nil }
        return "the person's `client_user_id` has \(bytes) bytes; a fleet takes at most \(FleetReading.mostPersonBytes)"
    }

    /// The readings of a part that a batch can have, and the refusals of the others.
    package static func fitting(_ part: DeliveryPart) -> (items: [OutboxItem], refused: [Outcome]) {
        // A centre could store no batch that names this person: they would wait for good.
        if let refusal = refusal(of: part.person.clientUserID) {
            return ([], part.items.map { Outcome($0.id, .refused(refusal)) })
        }
        var (items, outcomes): ([OutboxItem], [Outcome]) = ([], [])
        for item in part.items {
            let size = document(item, FleetSchema.largestNumber, part.person).size
            if size <= mostBytes {
                items.append(item)
            } else {
                outcomes.append(
                    Outcome(
                        item.id,
                        .refused("the reading has \(size) bytes; a batch of a fleet takes at most \(mostBytes)")))
            }
        }
        return (items, outcomes)
    }
}

extension FleetReading {
    /// How many bytes it has in a batch, with the comma behind it.
    fileprivate var size: Int {
        if case .written(let octets) = body { octets.count + 1 } else { 0 }
    }
}
