import Foundation
import HealthReadings
import Testing

/// The value types take whatever a damaged database or a hostile export holds: no trap, and no text without bound.
@Suite("values at their limits")
struct LimitTests {
    private static let integers: [Int64] = [
        .min, .min + 1, -9_223_372_036_855, -1_000_000, -1, 0, 1, 999_999, 1_000_000, 9_223_372_036_854, .max - 1, .max,
    ]
    private static let exponents: [Int16] = [.min, .min + 1, -134, -128, -40, -1, 0, 1, 40, 127, 133, .max - 1, .max]

    @Test("arithmetic on decimals with extreme exponents gives a number or nil")
    func extremeDecimals() {
        var decimals: [ExactDecimal] = []
        for digits in Self.integers {
            for exponent in Self.exponents { decimals.append(ExactDecimal(significand: digits, exponent: exponent)) }
        }
        for one in decimals {
            #expect(one.description.utf8.count <= 33_000)
            _ = one.approximation
            for power in Self.exponents { _ = one.scaled(byPowerOfTen: power) }
            for places: Int16 in [.min, -1, 0, 4, 9, .max] {
                _ = one.multiplied(by: ExactDecimal(significand: 1), places: places)
                _ = one.divided(by: ExactDecimal(significand: .min, exponent: .min), places: places)
                _ = one.divided(by: ExactDecimal(significand: 180_156, exponent: -4), places: places)
            }
        }
        for one in decimals {
            for other in decimals { _ = one.isNumericallyEqual(to: other) }
        }
        #expect(
            ExactDecimal(significand: 10, exponent: .max).isNumericallyEqual(to: .init(significand: 10, exponent: .max))
        )
    }

    @Test("instants at their limits stay at them instead of trapping")
    func extremeInstants() {
        for number in Self.integers {
            let (instant, seconds) = (Instant(microseconds: number), Instant(seconds: number))
            for each in [instant, seconds] {
                #expect(each.flooredToSecond <= each)
                #expect(each.description.hasSuffix("Z"))
                for other in Self.integers {
                    let moved = each.advanced(bySeconds: other)
                    #expect(other < 0 ? moved <= each : moved >= each)
                    _ = each.advanced(by: .seconds(other))
                }
            }
        }
        #expect(Instant(seconds: .max) == Instant(microseconds: .max))
        #expect(Instant(seconds: .min) == Instant(microseconds: .min))
        #expect(Instant(microseconds: .max).advanced(bySeconds: 1) == Instant(microseconds: .max))
    }

    @Test("a wall time no calendar reaches has a text, an instant and a reading's time")
    func extremeWallTimes() throws {
        let zone = try #require(ZoneRules.named("Europe/Berlin"))
        for seconds in Self.integers {
            let wall = WallTime(secondsSinceEpoch: seconds)
            #expect(wall.description.utf8.count < 40)
            _ = (wall.date, wall.timeOfDay, wall.advanced(byMinutes: .max), wall.advanced(byMinutes: .min))
            _ = zone.moment(wall)
            _ = zone.wallTime(at: Instant(microseconds: seconds))
            for difference in Self.integers {
                let clock = ClockComparison(differenceSeconds: difference, readAt: Instant(microseconds: seconds))
                _ = clock.correctionSeconds
                let earlier = ClockComparison(differenceSeconds: -1, readAt: Instant(microseconds: .min))
                for resolution in [
                    TimeResolution(zone: zone, clock: clock),
                    TimeResolution(
                        zone: zone, clock: clock, earlier: [.init(earlier, changedBy: .init(microseconds: 0))]),
                    TimeResolution(
                        zone: zone, clock: earlier, earlier: [.init(clock, changedBy: .init(microseconds: .max))]),
                ] {
                    let record = Record(
                        value: .glucose(GlucoseValue(concentration: nil)), baseTime: wall, timeOffsetMinutes: .min)
                    let time = resolution.resolve(record, receivedAt: Instant(microseconds: seconds)) { nil }
                    _ = TimeResolution.exclusion(of: time, receivedAt: Instant(microseconds: seconds))
                }
            }
        }
    }
}
