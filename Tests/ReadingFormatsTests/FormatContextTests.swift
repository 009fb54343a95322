import Testing

@testable import ReadingFormats

@Suite struct FormatContextTests {
    @Test func patientIsReadAsSystemAndValue() {
        let patient = PatientIdentifier(token: "https://clinic.example/patients|47|11")
        #expect(patient == PatientIdentifier(system: "https://clinic.example/patients", value: "47|11"))
    }

    @Test(arguments: ["", "4711", "|4711", "https://clinic.example/patients|"])
    func patientWithoutSystemOrValueIsRefused(token: String) {
        #expect(PatientIdentifier(token: token) == nil)
    }

    @Test func omissionNamesItsPartAndReason() {
        #expect(FormatOmission(.noPlace, of: "blood_pressure.mean").description == "blood_pressure.mean: no_place")
        #expect(FormatOmission(.excluded).description == "reading: excluded")
    }
}
