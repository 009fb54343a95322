import Foundation
import HealthReadings
import Testing

@testable import ReadingFormats

/// What holds for any reading: the rules of the Personal Health Device guide among it.
@Suite("FHIR: any reading")
struct FHIRPropertyTests {
    private func forEach(_ count: Int = 600, _ body: (Reading, FHIRChange, FHIRBundle) throws -> Void) throws {
        var generated = GeneratedReadings(seed: 4)
        var written = 0
        for number in 0..<count {
            let reading = generated.reading()
            let change = FHIRChange.allCases[number % 3]
            var bundle = FHIRBundle(number % 2 == 0 ? .transaction : .collection)
            do {
                try bundle.add(reading, in: Samples.context(), as: change)
            } catch {
                #expect(bundle.count == 0)
                continue
            }
            written += 1
            try body(reading, change, bundle)
        }
        #expect(written > count / 2)
    }

    private func observations(_ bundle: FHIRBundle) -> [JSONValue] {
        (bundle.document["entry"]?.elements ?? []).compactMap { $0["resource"] }
            .filter { $0["resourceType"] == "Observation" && $0.at("code.coding.0.code") != "67975" }
    }

    @Test("the document is JSON, whose references lead to entries of its own")
    func parses() throws {
        try forEach { _, _, bundle in
            let text = bundle.document.text
            // FHIR has no nulls and no empty arrays.
            #expect(!text.contains(":null") && !text.contains("[]"))
            let parsed = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
            let entries = try #require(parsed?["entry"] as? [[String: Any]])
            let urls = Set(entries.compactMap { $0["fullUrl"] as? String })
            #expect(urls.count == entries.count)
            let references = text.matches(of: /"reference":"(urn:uuid:[^"]*)"/).map { String($0.1) }
            #expect(!references.isEmpty && Set(references).isSubset(of: urls))
        }
    }

    @Test("ids and bytes don't depend on the zone, but for times")
    func zones() throws {
        try forEach(200) { reading, change, bundle in
            var elsewhere = FHIRBundle(bundle.kind)
            try elsewhere.add(reading, in: Samples.context(zone: "Asia/Kathmandu"), as: change)
            func withoutTimes(_ bundle: FHIRBundle) -> String {
                bundle.document.text.replacing(/(DateTime":")[^"]*/) { $0.1 }
                    .replacing("Europe/Berlin", with: "").replacing("Asia/Kathmandu", with: "")
            }
            #expect(withoutTimes(bundle) == withoutTimes(elsewhere))
            func instants(_ bundle: FHIRBundle) -> [Instant?] {
                bundle.document.text.matches(of: /DateTime":"([^"]*)/).map { Instant(rfc3339: $0.1) }
            }
            #expect(instants(bundle) == instants(elsewhere))
            #expect(!instants(bundle).contains(nil))
        }
    }

    @Test("the same reading has the same bytes")
    func deterministic() throws {
        try forEach(200) { reading, change, bundle in
            var again = FHIRBundle(bundle.kind)
            try again.add(reading, in: Samples.context(), as: change)
            #expect(again.document.text == bundle.document.text)
        }
    }

    @Test("every Observation has what PhdBaseObservation asks for")
    func baseProfile() throws {
        try forEach { reading, change, bundle in
            for observation in observations(bundle) {
                let gateways = (observation["extension"]?.elements ?? []).filter {
                    $0["url"] == "http://hl7.org/fhir/StructureDefinition/observation-gatewayDevice"
                }
                #expect(gateways.count == 1)
                let clocks = (observation["extension"]?.elements ?? []).filter {
                    $0["url"] == "http://hl7.org/fhir/uv/phd/StructureDefinition/CoincidentTimeStampReference"
                }
                #expect(clocks.count == (reading.time.clock == nil ? 0 : 1))
                let categories = (observation["category"]?.elements ?? []).compactMap { $0.at("coding.0.code")?.string }
                #expect(categories.filter { $0 == "phd" }.count == 1)
                #expect(observation.has("meta") && observation.has("subject"))
                #expect(observation.has("device.reference"))
                let time = try #require(observation["effectiveDateTime"]?.string)
                #expect(Instant(rfc3339: time) == reading.time.instant?.flooredToSecond)
                // The guide's identifier has no type, and there is at most one.
                let identifiers = observation["identifier"]?.elements ?? []
                #expect(identifiers.filter { !$0.has("type") }.count <= 1)
                #expect(observation["status"]?.string == change.status)
            }
        }
    }

    @Test("a code of MDC is there for all but the variability of the heart rate, and a LOINC code for all vital signs")
    func codes() throws {
        try forEach { reading, _, bundle in
            for observation in observations(bundle) {
                let systems = (observation.at("code.coding")?.elements ?? []).compactMap { $0["system"]?.string }
                #expect(systems.first == "urn:iso:std:iso:11073:10101" || reading.kind == .hrv)
                if observation["category"]?.text.contains("vital-signs") == true {
                    #expect(systems.contains("http://loinc.org"))
                }
            }
        }
    }

    @Test("a numeric Observation has one value or the reason why not, and a compound one has components alone")
    func values() throws {
        try forEach { reading, _, bundle in
            for observation in observations(bundle) {
                let profile = observation.at("meta.profile.0")?.string ?? ""
                if profile.hasSuffix("PhdCompoundNumericObservation") {
                    #expect(reading.kind == .bloodPressure)
                    #expect(!observation.has("valueQuantity") && !observation.has("dataAbsentReason"))
                    #expect(observation["component"]?.elements.isEmpty == false)
                } else {
                    #expect(observation.has("valueQuantity") != observation.has("dataAbsentReason"))
                }
                for component in observation["component"]?.elements ?? [] {
                    let keys = ["valueQuantity", "valueCodeableConcept", "valueBoolean", "dataAbsentReason"]
                    #expect(keys.filter(component.has).count == 1)
                }
                for quantity in [observation["valueQuantity"]].compactMap(\.self)
                    + (observation["component"]?.elements ?? []).compactMap({ $0["valueQuantity"] })
                {
                    #expect(quantity["system"] == "http://unitsofmeasure.org")
                    #expect(quantity.has("code"))
                }
            }
        }
    }
}
