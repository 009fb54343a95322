// Texts of documents, written straight into their octets: a string for each would cost more than the digits do.

extension [UInt8] {
    /// Appends a text of ours as it is.
    package mutating func append(literal text: StaticString) {
        append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// Appends a text as JSON writes it, with its quotes and escapes.
    package mutating func append(json text: String) { JSONValue.write(text, into: &self) }

    /// Appends the digits of a whole number.
    package mutating func append(digits number: Int64) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { scratch in
            var (rest, place) = (number.magnitude, scratch.count)
            repeat {
                place -= 1
                scratch[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            if number < 0 {
                place -= 1
                scratch[place] = UInt8(ascii: "-")
            }
            append(contentsOf: UnsafeBufferPointer(rebasing: scratch[place...]))
        }
    }

    /// Appends a number as its description is.
    package mutating func append(_ number: ExactDecimal) {
        let places = -Int(number.exponent)
        guard (1...18).contains(places) else {
            guard places == 0 else { return append(contentsOf: number.description.utf8) }
            return append(digits: number.significand)
        }
        // The sign, as many digits as there are in 64 bits, and the point.
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 22) { scratch in
            var (rest, place, digits) = (number.significand.magnitude, scratch.count, 0)
            repeat {
                if digits == places {
                    place -= 1
                    scratch[place] = UInt8(ascii: ".")
                }
                place -= 1
                scratch[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
                digits += 1
            } while rest > 0 || digits <= places
            if number.significand < 0 {
                place -= 1
                scratch[place] = UInt8(ascii: "-")
            }
            append(contentsOf: UnsafeBufferPointer(rebasing: scratch[place...]))
        }
    }

    /// Appends the 32 digits of an id.
    package mutating func append(_ id: ReadingID) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 32) { digits in
            id.write(to: digits)
            append(contentsOf: UnsafeBufferPointer(digits))
        }
    }

    /// Appends a date and time of day as their description is: `2026-11-20T13:30:00`.
    package mutating func append(_ wall: WallTime) {
        guard wall.hasUsualYear else { return append(contentsOf: wall.description.utf8) }
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: WallTime.length) { octets in
            wall.write(to: octets)
            append(contentsOf: UnsafeBufferPointer(octets))
        }
    }

    /// Appends an instant as its description is: `2026-11-20T12:30:00Z`.
    package mutating func append(_ instant: Instant) {
        guard instant == instant.flooredToSecond else { return append(contentsOf: instant.description.utf8) }
        append(WallTime(secondsSinceEpoch: instant.seconds))
        append(UInt8(ascii: "Z"))
    }
}
