import Foundation
import HealthReadings

/// The octets of an export as a parser can take them.
///
/// Apple Health writes a document type that is no use and, since iOS 16, not well-formed; and control characters that XML
/// does not allow, as they are or as references (`&#27;`). The document type never reaches the parser, so nothing can
/// declare an entity; characters that are not allowed become spaces. Lines keep their numbers.
final class ExportOctets {
    private let source: any OctetSource
    /// What was read ahead to find the document type, and how much of it was handed over.
    private var prolog: [UInt8] = []
    private var position = 0
    private var isBegun = false
    /// The beginning of a reference whose end is still to come.
    private var unfinished: [UInt8] = []
    /// Why no more comes.
    private(set) var failure: ImportDamage?
    /// How many octets were read.
    private(set) var octetsRead: Int64 = 0
    private var tail: [UInt8] = []
    private var isExhausted = false

    /// Whether all was read, and it does not end as an export does.
    var isCut: Bool {
        guard isExhausted else { return false }
        let end = tail.reversed().drop { " \t\r\n".utf8.contains($0) }
        return !end.starts(with: "</HealthData>".utf8.reversed())
    }

    /// An export's document type has 20 KiB.
    private static let longestProlog = 256 * 1024

    init(_ source: any OctetSource) { self.source = source }

    /// Reads octets; 0 at the end, -1 where ``failure`` says why.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let count = next(into: buffer)
        if count > 0 {
            tail = (tail + buffer[max(0, count - 64)..<count]).suffix(64)
        } else if count == 0 {
            isExhausted = true
        }
        return count
    }

    private func next(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        do throws(ImportDamage) {
            if !isBegun {
                isBegun = true
                prolog = try readProlog()
            }
            let held = unfinished.count
            buffer.copyBytes(from: unfinished)
            unfinished = []
            let count = try readOn(into: UnsafeMutableRawBufferPointer(rebasing: buffer[held...]))
            var octets = UnsafeMutableRawBufferPointer(rebasing: buffer[..<(held + count)])
            Self.replaceControls(octets)
            if count > 0, let start = Self.unfinishedReference(octets), start > 0 {
                unfinished = Array(octets[start...])
                octets = UnsafeMutableRawBufferPointer(rebasing: octets[..<start])
            }
            Self.replaceReferences(octets)
            return octets.count
        } catch {
            failure = error
            return -1
        }
    }

    private func readOn(into buffer: UnsafeMutableRawBufferPointer) throws(ImportDamage) -> Int {
        guard position < prolog.count else {
            let count = try source.read(into: buffer)
            octetsRead += Int64(count)
            return count
        }
        let count = min(buffer.count, prolog.count - position)
        prolog.withUnsafeBytes { all in
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: all[position..<position + count]))
        }
        position += count
        if position == prolog.count { (prolog, position) = ([], 0) }
        return count
    }

    /// Reads up to the root element, and blanks the document type.
    private func readProlog() throws(ImportDamage) -> [UInt8] {
        var octets: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 16 * 1024)
        while true {
            let count: Int
            do {
                count = try piece.withUnsafeMutableBytes { try source.read(into: $0) }
            } catch let error as ImportDamage { throw error } catch {
                throw ImportDamage(.unreadable, expected: "a file that can be read", found: "\(error)")
            }
            octetsRead += Int64(count)
            octets += piece[..<count]
            let (end, type) = try Self.prolog(of: octets)
            guard end == nil, count > 0 else {
                if let type {
                    for place in type where octets[place] != UInt8(ascii: "\n") { octets[place] = UInt8(ascii: " ") }
                }
                return octets
            }
            guard octets.count <= Self.longestProlog else {
                throw ImportDamage(
                    .damaged, line: 1, expected: "<HealthData> within \(Self.longestProlog >> 10) KiB",
                    found: "no element")
            }
        }
    }

    /// Where the root element begins, and where the document type stands before it.
    ///
    /// - Returns: a `nil` beginning if that is still to come.
    private static func prolog(of octets: [UInt8]) throws(ImportDamage) -> (Int?, type: Range<Int>?) {
        var place = octets.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
        var type: Range<Int>?
        func starts(_ text: StaticString, at place: Int) -> Bool {
            let text = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
            return octets.count >= place + text.count && octets[place..<place + text.count].elementsEqual(text)
        }
        func end(of text: StaticString, from place: Int) -> Int? {
            var place = place
            while place < octets.count {
                if starts(text, at: place) { return place + text.utf8CodeUnitCount }
                place += 1
            }
            return nil
        }
        while place < octets.count {
            if starts("<!--", at: place) {
                guard let next = end(of: "-->", from: place + 4) else { return (nil, type) }
                place = next
            } else if starts("<?", at: place) {
                guard let next = end(of: "?>", from: place + 2) else { return (nil, type) }
                place = next
            } else if starts("<!DOCTYPE", at: place), type == nil {
                guard let next = try endOfType(octets, from: place) else { return (nil, nil) }
                type = place..<next
                place = next
            } else if octets[place] == UInt8(ascii: "<") {
                // The last octets may be the beginning of a comment.
                return (octets.count - place < 9 ? nil : place, type)
            } else {
                place += 1
            }
        }
        return (nil, type)
    }

    /// Where a document type ends, well-formed or not; `nil` if that is still to come.
    private static func endOfType(_ octets: [UInt8], from start: Int) throws(ImportDamage) -> Int? {
        var place = start
        var isInside = false
        while place < octets.count {
            let rest = octets[place...]
            if rest.starts(with: "<!--".utf8) {
                var end = place + 4
                while end + 3 <= octets.count, !octets[end...].starts(with: "-->".utf8) { end += 1 }
                guard end + 3 <= octets.count else { return nil }
                place = end + 3
                continue
            }
            if rest.starts(with: "<!ENTITY".utf8) {
                throw ImportDamage(
                    .entities, line: octets[..<place].count { $0 == UInt8(ascii: "\n") } + 1,
                    expected: "a document type without entities", found: "<!ENTITY",
                    hint: "Apple Health writes no entities: this is not its export.")
            }
            switch octets[place] {
            case UInt8(ascii: "["): isInside = true
            case UInt8(ascii: "]"): isInside = false
            case UInt8(ascii: ">") where !isInside: return place + 1
            default: break
            }
            place += 1
        }
        return nil
    }

    /// Makes spaces of what XML allows nowhere.
    private static func replaceControls(_ octets: UnsafeMutableRawBufferPointer) {
        let space = UInt64(0x2020_2020_2020_2020)
        var place = 0
        while place + 8 <= octets.count {
            let word = octets.loadUnaligned(fromByteOffset: place, as: UInt64.self)
            // A high bit stands for an octet below 0x20.
            if (word &- space) & ~word & 0x8080_8080_8080_8080 != 0 {
                for each in place..<place + 8 { replaceControl(&octets[each]) }
            }
            place += 8
        }
        while place < octets.count {
            replaceControl(&octets[place])
            place += 1
        }
    }

    /// A reference to a character has no more octets, `&` and `;` included: `&#x10FFFF;`, with zeros before.
    private static let longestReference = 16

    /// Where a reference begins that does not end within these octets.
    private static func unfinishedReference(_ octets: UnsafeMutableRawBufferPointer) -> Int? {
        for place in octets.indices.suffix(longestReference - 1).reversed() {
            if octets[place] == UInt8(ascii: ";") { return nil }
            if octets[place] == UInt8(ascii: "&") { return place }
        }
        return nil
    }

    /// Has references to what XML allows nowhere refer to a space.
    private static func replaceReferences(_ octets: UnsafeMutableRawBufferPointer) {
        guard let base = octets.baseAddress else { return }
        var place = 0
        while let found = memchr(base + place, Int32(UInt8(ascii: "&")), octets.count - place) {
            place = UnsafeMutableRawPointer(base).distance(to: found) + 1
            guard place < octets.count, octets[place] == UInt8(ascii: "#") else { continue }
            let isHex = place + 1 < octets.count && octets[place + 1] == UInt8(ascii: "x")
            let start = place + (isHex ? 2 : 1)
            let digits = octets[start...].prefix(longestReference).prefix { $0 != UInt8(ascii: ";") }
            guard let number = UInt32(String(decoding: digits, as: UTF8.self), radix: isHex ? 16 : 10),
                number < 0x20, ![0x09, 0x0A, 0x0D].contains(number)
            else { continue }
            // A tab where there is no room for a space.
            let space = Array((digits.count == 1 ? "9" : isHex ? "20" : "32").utf8)
            for digit in digits.indices {
                let place = digit - digits.endIndex + space.count
                octets[digit] = place < 0 ? UInt8(ascii: "0") : space[place]
            }
        }
    }

    @inline(__always)
    private static func replaceControl(_ octet: inout UInt8) {
        if octet < 0x20, octet != 0x0A, octet != 0x0D, octet != 0x09 { octet = 0x20 }
    }
}
