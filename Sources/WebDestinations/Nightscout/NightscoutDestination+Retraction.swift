import HealthReadings
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore

extension NightscoutDestination {
    /// Looks for what a reading became, and deletes it. What another uploader wrote into its place stays.
    ///
    /// The credentials need the permission to delete.
    public func retract(
        _ items: [Retraction]
    ) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        var outcomes: [RetractionKey: Outcome.Result] = [:]
        for item in items {
            do throws(DeliveryFailure) {
                outcomes[item.key] =
                    item.kind == .bloodPressure ? try await removeNote(item) : try await removeEntry(item)
            } catch {
                let failure = item.kind == .bloodPressure ? Self.aboutNotes(error) : error
                // What was deleted is noted first; the rest is asked for again.
                guard outcomes.isEmpty || failure.isCancellation else { return outcomes }
                throw failure
            }
        }
        return outcomes
    }

    private func removeEntry(_ item: Retraction) async throws(DeliveryFailure) -> Outcome.Result {
        let (date, id) = ("\(item.timestamp.seconds * 1000)", item.reading.description)
        let found = try await documents(in: "entries", ["find[date]": date, "count": "10"])
        let ours = found.filter { $0["readingId"]?.text == id }
        for entry in ours {
            // Fields that a later entry lacks stay: only if the device is still this reading's is the value.
            guard let device = entry["device"]?.text, device == entry["readingDevice"]?.text,
                let type = entry["type"]?.text, Nightscout.EntryType(rawValue: type) != nil
            else { continue }
            try await delete(
                "entries/\(type)",
                ["find[date]": date, "find[device]": device, "find[readingId]": id, "count": "1"])
        }
        let types = Nightscout.EntryType.allCases.map { AnswerJSON.text($0.rawValue) }
        let isNameless = found.contains { entry in
            entry["readingId"] == nil && types.contains(entry["type"] ?? .null)
        }
        // A server that drops the field cannot say whose entry it has.
        return ours.isEmpty && isNameless && item.wasDelivered
            ? .refused("the site does not keep what tells readings apart, so nothing is deleted there") : .delivered
    }

    private func removeNote(_ item: Retraction) async throws(DeliveryFailure) -> Outcome.Result {
        let id = item.reading.description
        guard let moment = try? Nightscout.dateString(item.timestamp, offsetMinutes: 0) else { return .delivered }
        let found = try await documents(
            in: "treatments",
            [
                "find[created_at][$gte]": moment, "find[created_at][$lte]": moment,
                "find[eventType]": Nightscout.noteType,
            ])
        for note in found where note["identifier"]?.text == id {
            guard let key = note["_id"]?.text, key.utf8.count == 24, key.allSatisfy(\.isHexDigit) else {
                return .refused("the site names the note by something that cannot be deleted")
            }
            try await delete("treatments/\(key)", [:])
        }
        return .delivered
    }

    private func documents(
        in collection: String, _ query: KeyValuePairs<String, String>
    ) async throws(DeliveryFailure) -> [AnswerJSON] {
        let route = "GET /api/v1/\(collection).json"
        var request = WebRequest(method: .GET, url: url("api/v1/\(collection).json", query), route: route)
        request.headers = headers
        let answer = try await client.send(request)
        guard answer.isGood, !answer.isPage, case .array(let documents)? = answer.json else {
            throw client.failure(of: answer, route)
        }
        return documents
    }

    private func delete(
        _ path: String, _ query: KeyValuePairs<String, String>
    ) async throws(DeliveryFailure) {
        let route = "DELETE /api/v1/\(path.prefix { $0 != "/" })"
        var request = WebRequest(method: .DELETE, url: url("api/v1/\(path)", query), route: route)
        request.headers = headers
        let answer = try await client.send(request)
        guard answer.isGood, !answer.isPage else {
            var failure = client.failure(of: answer, route)
            // The credentials were good enough to read: it is the permission that is missing.
            if failure.code == "authentication_failed" || failure.code == "forbidden" {
                failure.scope = .target
                failure.code = "forbidden"
                failure.message =
                    "\(route): taking readings back needs the permission to delete (status \(answer.status))"
            }
            if failure.scope == .items { failure.scope = .target }
            throw failure
        }
    }
}
