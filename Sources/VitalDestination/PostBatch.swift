import HealthReadings
import ReadingDelivery
import ReadingStore
import VitalClient

/// An item's sample, with what the body summary says of its day.
struct Prepared: Sendable {
    var timestamp: Instant
    var timeZone: String?
    var sample: Sample
}

/// A part in the server's shape, and what becomes of each reading if the server takes the post.
struct PostBatch: Sendable {
    private(set) var prepared: [Prepared] = []
    /// Delivered for each sample; refused for a reading that cannot be a sample, so that it never blocks the rest.
    private(set) var outcomes: [Outcome] = []
    let stage: PostStage
    /// What a backfill covers.
    let period: ClosedRange<Instant>?

    /// - Parameter taken: seconds that another device of the person has, by device.
    init(_ part: DeliveryPart, _ conversion: SampleConversion, besides taken: [DeviceDescription: Set<Instant>] = [:]) {
        prepared.reserveCapacity(part.items.count)
        outcomes.reserveCapacity(part.items.count)
        for item in part.items {
            do throws(ConversionError) {
                let sample = try conversion.sample(
                    of: item, provider: part.target.provider, besides: taken[item.reading.device] ?? [])
                prepared.append(Prepared(timestamp: item.timestamp, timeZone: item.timeZone, sample: sample))
                outcomes.append(Outcome(item.id, .delivered))
            } catch {
                outcomes.append(Outcome(item.id, .refused(error.description)))
            }
        }
        let isBackfill = part.items.first?.isBackfill ?? false
        stage = isBackfill ? .historical : .daily
        if isBackfill, let first = prepared.first?.timestamp, let last = prepared.last?.timestamp {
            period = first...max(last, prepared.compactMap(\.sample.end).max() ?? last)
        } else {
            period = nil
        }
    }

    /// The samples of a time series; nil for kinds that belong into the body summary.
    func timeSeries(_ resource: ReadingKind) -> TimeSeriesData? {
        let quantities = prepared.flatMap { one -> [QuantitySample] in
            switch one.sample {
            case .quantity(let sample): [sample]
            case .series(let samples): samples
            case .bloodPressure, .body: []
            }
        }
        return switch resource {
        case .glucose: .glucose(quantities)
        case .spo2: .bloodOxygen(quantities)
        case .temperature: .temperature(quantities)
        case .heartRate: .heartRate(quantities)
        case .hrv: .heartRateVariability(quantities)
        case .bloodPressure:
            .bloodPressure(
                prepared.compactMap { if case .bloodPressure(let sample) = $0.sample { sample } else { nil } })
        case .weight, .bodyComposition, .activity, .sleep, .other: nil
        }
    }
}

extension DeliveryPart {
    /// The zone that a post of the part names: the person's when the readings were measured.
    var timeZone: String { items.first?.timeZone ?? person.timeZone }

    /// The part, cut where the person's zone changed: a post names one zone for all of its samples.
    var cutByZone: [DeliveryPart] {
        let zones = items.map { $0.timeZone ?? person.timeZone }
        let starts = zones.indices.filter { $0 == 0 || zones[$0] != zones[$0 - 1] }
        // Nearly always there is one zone.
        guard starts.count > 1 else { return [self] }
        return zip(starts, starts.dropFirst() + [items.count]).map { start, end in
            DeliveryPart(
                target: target, person: person, items: Array(items[start..<end]),
                isLast: isLast && end == items.count)
        }
    }
}

extension Sample {
    /// When the last sample of a recording ends.
    fileprivate var end: Instant? { if case .series(let samples) = self { samples.last?.endDate } else { nil } }
}
