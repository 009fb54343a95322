import HealthReadings
import ReadingImport
import Testing

/// Files that were changed at random: reading them ends, says the same twice, and gives samples that can be stored.
@Suite("Damaged files of other programs")
struct MutationTests {
    /// SplitMix64.
    private struct Dice: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return mixed ^ (mixed >> 31)
        }
    }

    private static let seeds: [(ImportFormat, String)] = [
        (
            .appleHealth,
            AppleHealthTests.export(
                AppleHealthTests.record("BloodGlucose", "5.6", "mmol&lt;180.1558800000541&gt;/L") + "\n"
                    + AppleHealthTests.record(
                        "BodyMass", "70", "kg", body: "<MetadataEntry key=\"HKWasUserEntered\" value=\"1\"/>") + "\n"
                    + AppleHealthTests.record("BloodPressureSystolic", "128", "mmHg")
                    + AppleHealthTests.correlation("128", "82"))
        ),
        (
            .appleHealth,
            AppleHealthTests.export(AppleHealthTests.record("BodyMass", "70", "kg"), type: AppleHealthTests.brokenType)
        ),
        (
            .libreView,
            LibreViewTests.file(
                LibreViewTests.german,
                [
                    LibreViewTests.row("20-11-2026 07:30", 0, historic: "101"),
                    LibreViewTests.row("05-11-2026 07:30", 1, scan: "\"5,6\""),
                ])
        ),
        (
            .csv,
            OwnCSVTests.file(
                "\(OwnCSVTests.id),glucose,2026-11-20T06:30:00Z,corrected,,,,,x,,95,mg/dL,,,,,,,,,,,,",
                "\(OwnCSVTests.id),weight,2026-11-20T06:30:00Z,reception,,,,,\"m,a\",,,,,,,,,,,,,,70.50,kg")
        ),
    ]

    @Test("a file that was changed anywhere is read to its end or refused", arguments: 0..<4)
    func mutated(_ seed: Int) throws {
        let (format, text) = Self.seeds[seed]
        let original = Array(text.utf8)
        var dice = Dice(state: UInt64(seed))
        for _ in 0..<1500 {
            var octets = original
            for _ in 0..<Int.random(in: 1...4, using: &dice) where !octets.isEmpty {
                let place = Int.random(in: 0..<octets.count, using: &dice)
                switch Int.random(in: 0..<5, using: &dice) {
                case 0: octets[place] = UInt8.random(in: .min ... .max, using: &dice)
                case 1: octets.remove(at: place)
                case 2: octets.removeSubrange(place..<min(octets.count, place + 40))
                case 3: octets.insert(contentsOf: octets[place..<min(octets.count, place + 30)], at: place)
                default: octets.removeLast(octets.count - place)
                }
            }
            let (first, second) = (Self.read(octets, format), Self.read(octets, format))
            #expect(first == second)
            for case .sample(let sample) in first {
                #expect(DecodedFrame(importedSample: sample.octets) == .imported(sample))
            }
        }
    }

    @Test("a cut anywhere loses no record that was whole", arguments: stride(from: 0.05, to: 1, by: 0.05).map { $0 })
    func cut(_ part: Double) throws {
        let export = AppleHealthTests.export(
            (0..<300).map { AppleHealthTests.record("BodyMass", "\(50 + $0)", "kg") }.joined(separator: "\n"))
        let octets = Array(export.utf8)
        let cut = Array(octets.prefix(Int(Double(octets.count) * part)))
        let whole = String(decoding: cut, as: UTF8.self).split(separator: "<Record", omittingEmptySubsequences: false)
            .dropFirst().count { $0.contains("/>") }
        #expect(Self.read(cut, .appleHealth).count == whole)
    }

    private static func read(_ octets: [UInt8], _ format: ImportFormat) -> [ImportItem] {
        guard let zone = ZoneRules.named("Europe/Berlin") else { return [] }
        let rules = ImportRules(person: "white_bear", zones: [(Instant(microseconds: .min), zone)], takesPeople: true)
        var items: [ImportItem] = []
        do throws(ImportDamage) {
            let reader = try ImportFile(octets: octets, format: format).reader(rules)
            while let item = try reader.next() { items.append(item) }
        } catch {
            #expect(!error.expected.isEmpty && !error.found.isEmpty)
        }
        return items
    }
}
