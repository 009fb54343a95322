import HealthFigures
import HealthReadings
import ReadingDelivery
import ReadingFormats
import ReadingStore

/// The formats that have whole days: Terra's, and ROOK's summaries.
extension WebhookDestination {
    /// A part for each local day of the person.
    func dayParts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart] {
        let zones = try await zones(of: batch.person)
        var (parts, places): ([DeliveryPart], [PersonDay: Int]) = ([], [:])
        for item in batch.items {
            let day = zones.day(of: item.timestamp)
            if let place = places[day] {
                parts[place].items.append(item)
            } else {
                places[day] = parts.count
                parts.append(DeliveryPart(target: batch.target, person: batch.person, items: [item], isLast: false))
            }
        }
        if let last = parts.indices.last { parts[last].isLast = batch.isLast }
        return parts
    }

    /// Posts the day of a part's readings. A reading counts as delivered once the receiver has taken a document that has it.
    func sendDay(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        guard let first = part.items.first else { return [] }
        let (zones, ids) = (try await zones(of: part.person), Set(part.items.map(\.reading.id)))
        let day = zones.day(of: first.timestamp)
        guard let found = try await whole(day, of: part.person, sending: ids) else {
            return part.items.map { Outcome($0.id, .refused(Self.prunedWords(day))) }
        }
        if part.items.contains(where: { found.readings.contains($0.reading.id) }) {
            try await post(found.document, of: part.person.clientUserID)
            // A night is on the next day, too.
            if format == .rookSummary {
                let later = Set(part.items.flatMap { $0.reading.laterDays(in: zones) })
                for day in later.sorted(by: { $0.start < $1.start }) {
                    guard let found = try await whole(day, of: part.person, sending: ids) else { continue }
                    try await post(found.document, of: part.person.clientUserID)
                }
            }
        }
        return part.items.compactMap { item in
            if found.readings.contains(item.reading.id) { return Outcome(item.id, .delivered) }
            // What was excluded since it was queued has no outcome: the store does not offer it again.
            return found.refused[item.reading.id].map { Outcome(item.id, .refused("not sent: \($0)")) }
        }
    }

    private func zones(of person: StoreUser) async throws(DeliveryFailure) -> ZoneHistory {
        do { return try await days.zones(of: person) } catch { throw DeliveryFailure(error) }
    }

    private func whole(
        _ day: PersonDay, of person: StoreUser, sending ids: Set<ReadingID>
    ) async throws(DeliveryFailure) -> WebhookDay? {
        do { return try await days.day(day, of: person, sending: ids) } catch { throw DeliveryFailure(error) }
    }

    /// Posts the days of readings that are taken back, without them.
    func retractDays(
        _ items: [Retraction]
    ) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        var outcomes: [RetractionKey: Outcome.Result] = [:]
        for (person, items) in Dictionary(grouping: items, by: \.person).sorted(by: { $0.key < $1.key }) {
            do {
                if let user = try await knownUser(person) {
                    try await retractDays(items, of: user, into: &outcomes)
                } else {
                    try await blankDays(items, of: person, into: &outcomes)
                }
            } catch {
                guard outcomes.isEmpty || error.isCancellation else { return outcomes }
                throw error
            }
        }
        return outcomes
    }

    private func knownUser(_ person: String) async throws(DeliveryFailure) -> StoreUser? {
        do { return try await store.user(person) } catch { throw DeliveryFailure(error) }
    }

    private func retractDays(
        _ items: [Retraction], of person: StoreUser, into outcomes: inout [RetractionKey: Outcome.Result]
    ) async throws(DeliveryFailure) {
        let zones = try await zones(of: person)
        for (day, items) in Dictionary(grouping: items, by: { zones.day(of: $0.timestamp) })
            .sorted(by: { $0.key.start < $1.key.start })
        {
            guard let found = try await whole(day, of: person, sending: []) else {
                for item in items { outcomes[item.key] = .refused(Self.prunedWords(day)) }
                continue
            }
            try await post(found.document, of: person.clientUserID)
            // What is taken back may have been a night, which is on the next day, too.
            let next = zones.day(of: day.end)
            if format == .rookSummary, items.contains(where: { [.heartRate, .spo2].contains($0.kind) }),
                next.start <= clock.now(), let later = try await whole(next, of: person, sending: [])
            {
                try await post(later.document, of: person.clientUserID)
            }
            for item in items { outcomes[item.key] = .delivered }
        }
    }

    /// A person who was erased: nothing of theirs is to be left on the days.
    private func blankDays(
        _ items: [Retraction], of person: String, into outcomes: inout [RetractionKey: Outcome.Result]
    ) async throws(DeliveryFailure) {
        var blank: Set<PersonDay> = []
        for item in items {
            let documents: [DayDocument]
            do {
                documents = try await days.emptyDays(around: item.timestamp, person: person)
            } catch {
                throw DeliveryFailure(error)
            }
            for document in documents where !blank.contains(document.day) {
                try await post(document, of: person)
                blank.insert(document.day)
            }
            outcomes[item.key] = .delivered
        }
    }

    private static func prunedWords(_ day: PersonDay) -> String {
        "not sent: readings of \(day.date) that the receiver has were pruned here, and a new document of the day would remove them"
    }

    private func post(_ document: DayDocument, of person: String) async throws(DeliveryFailure) {
        let place: DestinationKey
        do {
            place = try await store.key(ofDestination: name)
            if !order.hasBegun {
                let last = try await store.statistics(of: place).lastDelivery
                order.begin(after: last, try await store.lastOrder(of: place))
            }
        } catch {
            throw DeliveryFailure(error)
        }
        let (attempt, message) = try numbered(document, of: person)
        if let number = order.reservation(for: attempt) {
            do { try await store.reserveOrder(upTo: number, of: place) } catch { throw DeliveryFailure(error) }
            order.reserved(upTo: number)
        }
        do {
            try await post(message)
        } catch {
            var failure = error
            // A smaller part has the same document, and Terra sends again whatever the receiver refuses.
            if failure.scope == .items || failure.scope == .tooLarge { failure.scope = .target }
            throw failure
        }
        order.taken(attempt, of: person)
    }

    private func numbered(
        _ document: DayDocument, of person: String
    ) throws(DeliveryFailure) -> (WebhookOrder.Attempt, WebhookFormat.Message) {
        do throws(FormatOmission) {
            let unnumbered = WebhookFormat.Message(
                try document.json(sender, version: 0), .rook(hashed: ""), mediaType: format.readingFormat.mediaType)
            let attempt = order.attempt(unnumbered.body, of: person, at: clock.now())
            switch document {
            case .terra:
                var message = unnumbered
                message.proof = .terra(trace: attempt.trace, ordering: attempt.ordering)
                return (attempt, message)
            case .rook:
                let json = try document.json(sender, version: attempt.ordering)
                return (
                    attempt,
                    WebhookFormat.Message(
                        json, .rook(hashed: RookSummary.hashedText(of: json)), mediaType: unnumbered.mediaType)
                )
            }
        } catch {
            throw DeliveryFailure(.target, code: "not_expressible", message: "the day cannot be written: \(error)")
        }
    }
}
