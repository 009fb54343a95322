import HealthFigures
import HealthReadings
import ReadingDelivery
import ReadingStore
import VitalClient

extension SampleConversion.Sender {
    /// The samples of a recording, one a second; each has the reading's id with its number behind.
    func series(
        _ value: VitalValue, of reading: Reading, besides taken: Set<Instant>
    ) throws(ConversionError) -> [QuantitySample] {
        let unit: SampleUnit = value.kind == .spo2 ? .percent : .beatsPerMinute
        guard value.main?.unit == (value.kind == .spo2 ? .percent : .beatsPerMinute) else {
            throw ConversionError(reason: "\(value.kind.rawValue) in \(value.main?.unit.symbol ?? "no unit")")
        }
        var samples: [QuantitySample] = []
        for (number, sample) in reading.secondSamples(at: time).enumerated() where !taken.contains(sample.time) {
            guard let rounded = sample.value.rounded(toPlaces: ConversionFactor.vitalPlaces) else { continue }
            samples.append(
                QuantitySample(
                    id: "\(id)-\(number)", value: rounded, unit: unit, at: sample.time, source: source,
                    metadata: common))
        }
        guard !samples.isEmpty else {
            throw ConversionError(reason: "another device measured the same person in the same seconds")
        }
        return samples
    }
}

extension DeliveryPart {
    /// How many samples a post has at most; the server takes 10,000.
    static let mostSamples = 5000

    /// The part, cut so that no post has more samples than that.
    var cutBySamples: [DeliveryPart] {
        guard target.resource == .heartRate || target.resource == .spo2 else { return [self] }
        var (parts, current, count): ([DeliveryPart], [OutboxItem], Int) = ([], [], 0)
        func close(isLast: Bool) {
            parts.append(DeliveryPart(target: target, person: person, items: current, isLast: isLast))
            (current, count) = ([], 0)
        }
        for item in items {
            let samples = max(1, item.reading.seriesCount)
            if !current.isEmpty, count + samples > Self.mostSamples { close(isLast: false) }
            current.append(item)
            count += samples
        }
        if !current.isEmpty { close(isLast: isLast) }
        return parts.isEmpty ? [self] : parts
    }
}

extension Reading {
    /// How many samples a recording has; 0 for other readings.
    fileprivate var seriesCount: Int {
        if case .vital(let value) = record.value { value.series?.count ?? 0 } else { 0 }
    }
}

extension TimeSeriesData {
    /// The data in pieces of so many samples as a post has at most: a night of an oximeter may have more.
    var cutBySamples: [TimeSeriesData] {
        func cut(_ samples: [QuantitySample], _ make: ([QuantitySample]) -> TimeSeriesData) -> [TimeSeriesData] {
            samples.pieces(of: DeliveryPart.mostSamples).map(make)
        }
        switch self {
        case .bloodOxygen(let samples) where samples.count > DeliveryPart.mostSamples:
            return cut(samples, TimeSeriesData.bloodOxygen)
        case .heartRate(let samples) where samples.count > DeliveryPart.mostSamples:
            return cut(samples, TimeSeriesData.heartRate)
        default: return [self]
        }
    }
}

extension VitalDestination {
    /// How far the samples of a strap's recording reach behind its time, in seconds.
    private static let reach: Int64 = 61
    /// How far those of an oximeter's night do.
    private static let reachOfNight: Int64 = 65_536
    /// The age of a recording, in seconds, from which a night may have come meanwhile that was measured at the same time.
    private static let ageOfNight: Int64 = 3600

    /// The seconds of a part's samples that another device of the person has at the server, by the part's device.
    ///
    /// The server tells samples apart by their second alone. Where two devices measured one person at once, the one with the
    /// lower address has the second, whichever is delivered first.
    func takenSeconds(_ part: DeliveryPart) async throws -> [DeviceDescription: Set<Instant>] {
        let own = part.items.filter { $0.reading.seriesCount > 0 }
        guard let first = own.map(\.timestamp).min(), let last = own.map(\.timestamp).max() else { return [:] }
        var others: [(device: DeviceDescription, readings: [Reading])] = []
        let end = own.compactMap(\.reading.seriesEnd).max() ?? last
        let isOld = clock.now().seconds - first.seconds > Self.ageOfNight
        var query = ReadingQuery(
            kinds: [part.target.resource],
            from: first.advanced(bySeconds: -(isOld ? Self.reachOfNight : Self.reach)),
            to: max(last, end).advanced(bySeconds: Self.reach), limit: 1000, user: part.target.user)
        while true {
            let page = try await store.query(query)
            let wanted = page.readings.filter {
                $0.excluded == nil && $0.seriesCount > 0 && $0.device.provider == part.target.provider
            }
            for (device, readings) in Dictionary(grouping: wanted, by: \.device) { others.append((device, readings)) }
            guard page.more, let cursor = page.cursor else { break }
            query.cursor = cursor
        }
        // The usual case: one device.
        let devices = Set(own.map(\.reading.device))
        guard others.contains(where: { other in devices.contains { $0 != other.device } }) else { return [:] }
        var taken: [DeviceDescription: Set<Instant>] = [:]
        for device in devices {
            taken[device] = Set(
                others.filter { $0.device.rank < device.rank }.flatMap(\.readings).flatMap { reading in
                    reading.secondSamples().map(\.time)
                })
        }
        return taken
    }
}

extension DeviceDescription {
    /// What decides which of two devices has a second.
    fileprivate var rank: String { "\(address?.description ?? "") \(serial ?? "") \(model ?? "")" }
}
