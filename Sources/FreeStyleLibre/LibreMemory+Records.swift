import HealthReadings

/// Why the records of a ring are at no known minute, and therefore none.
public enum RingFault: String, Error, Sendable, Hashable, CaseIterable {
    /// The body's CRC is wrong.
    case bodyCRC = "body_crc"
    /// The index names a slot that the ring does not have.
    case indexOutOfRange = "index_out_of_range"
    /// The ring stands elsewhere than the sensor's age says.
    case indexDisagreesWithAge = "index_disagrees_with_age"
}

extension LibreMemory {
    /// Slots of the trend ring: one record a minute.
    public static let trendSlots = 16
    /// Slots of the history ring: one record every 15 minutes.
    public static let historySlots = 32

    private static let trendStart = 28
    private static let historyStart = 124

    /// Why the trend's records are at no known minute; nil where they are.
    public var trendFault: RingFault? {
        guard let trendIndex else { return .bodyCRC }
        guard trendIndex < Self.trendSlots else { return .indexOutOfRange }
        return trendLagMinutes == nil ? .indexDisagreesWithAge : nil
    }

    /// Why the history's records are at no known minute; nil where they are.
    public var historyFault: RingFault? {
        guard let historyIndex else { return .bodyCRC }
        guard historyIndex < Self.historySlots else { return .indexOutOfRange }
        return historyCount == nil ? .indexDisagreesWithAge : nil
    }

    /// The age at which the rings stand: the sensor's, or that of the end of its life; `nil` where the body's CRC is wrong.
    ///
    /// After the end of its life a sensor writes no more records, and its age goes on for half a day. Public memories of
    /// sensors that have shut down have both rings as they stood at the end. Rings that stand elsewhere have gone on.
    var ringAgeMinutes: UInt16? {
        guard let age = ageMinutes else { return nil }
        guard state == .expired || state == .shutDown, let life = maximumLifeMinutes, life < age,
            trendLag(at: life) != nil, historyRecords(at: life) != nil
        else { return age }
        return life
    }

    /// How many minutes the newest trend record is behind the age at which the rings stand, 0 or 1; `nil` if that is not
    /// known. The rings stand at the sensor's age, or after the end of its life at that end.
    ///
    /// The sensor writes the record of minute m into slot (m - 1) mod 16. It counts its age on before it writes the record
    /// of the new minute, so a scan between the two finds the newest record one minute behind. Any other lag contradicts
    /// the age.
    public var trendLagMinutes: Int? { ringAgeMinutes.flatMap { trendLag(at: $0) } }

    private func trendLag(at age: UInt16) -> Int? {
        guard let index = trendIndex, index < Self.trendSlots else { return nil }
        let lag = (Int(age) - Int(index)) & (Self.trendSlots - 1)
        return lag <= 1 ? lag : nil
    }

    /// How many history records the sensor has written in its life, 0 … 4369; nil where that is not known.
    ///
    /// The record of minute 15 n is written at the age of 15 n + 3, or already at 15 n + 2: then the ring is one ahead of
    /// the age, which only the index tells.
    public var historyCount: Int? { ringAgeMinutes.flatMap { historyRecords(at: $0) } }

    private func historyRecords(at age: UInt16) -> Int? {
        guard let index = historyIndex else { return nil }
        let since = max(0, Int(age) - 3)
        let count = since / 15
        if count % Self.historySlots == Int(index) { return count }
        return since % 15 == 14 && (count + 1) % Self.historySlots == Int(index) ? count + 1 : nil
    }

    /// Why no record has a concentration; nil where it depends on the record.
    public var calibrationFault: EstimateFault? {
        guard isHeaderRight else { return .headerCRC }
        guard let calibration else { return .footerCRC }
        do {
            _ = try GlucoseEstimator(calibration)
            return nil
        } catch {
            return error
        }
    }

    /// The records of both rings, oldest minute first, a minute's trend record before its history record. Slots that were
    /// never written are none, and none lies before the sensor's start or after the scan.
    public var libreRecords: [LibreRecord] {
        var records: [LibreRecord] = []
        forEachRecord { records.append($0) }
        return records
    }

    /// The records as meters' records are, in the same order.
    public var records: [Record] {
        guard let age = ageMinutes else { return [] }
        // One that has shut down because it failed still says so.
        let state: SensorState? = self.state == .shutDown && hasFailureNoted ? .failure : self.state
        let life = maximumLifeMinutes
        var records: [Record] = []
        records.reserveCapacity(Self.trendSlots + Self.historySlots)
        forEachRecord { records.append($0.record(inState: state, atAge: age, ofLife: life)) }
        return records
    }

    @inline(__always)
    private func forEachRecord(_ body: (LibreRecord) -> Void) {
        guard let age = ringAgeMinutes else { return }
        let estimator: Result<GlucoseEstimator, EstimateFault>
        do throws(EstimateFault) {
            guard isHeaderRight else { throw .headerCRC }
            guard let calibration else { throw .footerCRC }
            estimator = .success(try GlucoseEstimator(calibration))
        } catch {
            estimator = .failure(error)
        }
        octets.withUnsafeBufferPointer { octets in
            @inline(__always)
            func give(_ source: SensorFacts.Source, _ minute: Int, at place: Int) {
                let raw = Self.rawRecord(octets, at: place)
                guard !raw.isEmpty, minute >= 0, minute <= Int(age) else { return }
                let estimate: Result<GlucoseEstimate, EstimateFault>
                switch estimator {
                case .success(let estimator):
                    do throws(EstimateFault) {
                        estimate = .success(try estimator.estimate(raw))
                    } catch {
                        estimate = .failure(error)
                    }
                case .failure(let fault): estimate = .failure(raw.hasError ? .errorRecord : fault)
                }
                body(LibreRecord(source: source, minute: UInt16(minute), raw: raw, estimate: estimate))
            }
            // Both rings are given oldest first, so that joining them is one walk.
            let lag = trendLagMinutes
            var trendLeft = lag == nil ? 0 : Self.trendSlots
            let trendIndex = Int(trendIndex ?? 0)
            let trendFirst = Int(age) - (lag ?? 0) - Self.trendSlots + 1
            func giveTrend(before limit: Int) {
                while trendLeft > 0 {
                    let step = Self.trendSlots - trendLeft
                    guard trendFirst + step < limit else { return }
                    give(.trend, trendFirst + step, at: Self.trendStart + RawRecord.size * ((trendIndex + step) % 16))
                    trendLeft -= 1
                }
            }
            if let count = historyCount {
                for step in 0..<Self.historySlots {
                    let minute = 15 * (count - Self.historySlots + 1 + step)
                    giveTrend(before: minute + 1)
                    let slot = (count + step) % Self.historySlots
                    give(.history, minute, at: Self.historyStart + RawRecord.size * slot)
                }
            }
            giveTrend(before: .max)
        }
    }

    @inline(__always)
    private static func rawRecord(_ octets: UnsafeBufferPointer<UInt8>, at place: Int) -> RawRecord {
        var bits: UInt64 = 0
        for octet in 0..<RawRecord.size { bits |= UInt64(octets[place + octet]) << UInt64(8 * octet) }
        return RawRecord(bits: bits)
    }
}
