import HealthReadings
import Testing

@testable import ReadingFormats

/// Whole documents, written by hand from the guide. The UUIDs are what Python's `uuid.uuid5` makes of the names.
@Suite("FHIR documents as a whole")
struct FHIRGoldenTests {
    private static let gateway =
        #"{"fullUrl":"urn:uuid:e898248b-6d6e-514c-abd3-979f7248e4be","resource":{"resourceType":"Device","#
        + #""meta":{"profile":["http://hl7.org/fhir/uv/phd/StructureDefinition/PhgDevice"]},"#
        + #""identifier":[{"type":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v2-0203","code":"RI"}]},"#
        + #""system":"urn:ietf:rfc:3986","value":"urn:uuid:e898248b-6d6e-514c-abd3-979f7248e4be"}],"#
        + #""serialNumber":"gw-1","deviceName":[{"name":"HealthRelay","type":"model-name"}],"#
        + #""type":{"coding":[{"system":"urn:iso:std:iso:11073:10101","code":"531981","display":"MDC_MOC_VMS_MDS_AHD"}],"#
        + #""text":"Personal health gateway"},"specialization":[{"systemType":{"coding":[{"#
        + #""system":"urn:iso:std:iso:11073:10101","code":"528457","display":"MDC_DEV_SPEC_PROFILE_GENERIC"}]}}],"#
        + #""version":[{"type":{"coding":[{"system":"urn:iso:std:iso:11073:10101","code":"531975","#
        + #""display":"MDC_ID_PROD_SPEC_SW"}]},"value":"0.2.0"}]},"request":{"method":"POST","url":"Device","#
        + #""ifNoneExist":"identifier=urn:ietf:rfc:3986|urn:uuid:e898248b-6d6e-514c-abd3-979f7248e4be"}}"#

    private static let subject =
        #""subject":{"reference":"Patient?identifier=urn:oid:1.2.3|p1","type":"Patient","#
        + #""identifier":{"system":"urn:oid:1.2.3","value":"p1"}}"#

    private static let gatewayExtension =
        #"{"url":"http://hl7.org/fhir/StructureDefinition/observation-gatewayDevice","valueReference":{"reference":"#
        + #""urn:uuid:e898248b-6d6e-514c-abd3-979f7248e4be"}}"#

    private static let phd =
        #"{"coding":[{"system":"http://hl7.org/fhir/uv/phd/CodeSystem/PhdObservationCategories","code":"phd"}]}"#

    private static let vitalSigns =
        #"{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/observation-category","code":"vital-signs"}]}"#

    private static func identifiers(_ uuid: String, guide: String) -> String {
        #""identifier":[{"type":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v2-0203","code":"RI"}]},"#
            + #""system":"urn:ietf:rfc:3986","value":"urn:uuid:\#(uuid)"},"#
            + #"{"system":"http://hl7.org/fhir/uv/phd/StructureDefinition/PhdBaseObservation","value":"\#(guide)"}]"#
    }

    private static func post(_ uuid: String) -> String {
        #""request":{"method":"POST","url":"Observation","ifNoneExist":"identifier=urn:ietf:rfc:3986|urn:uuid:\#(uuid)"}"#
    }

    private static func code(_ mdc: String, _ name: String, _ loinc: String) -> String {
        #"{"coding":[{"system":"urn:iso:std:iso:11073:10101","code":"\#(mdc)","display":"\#(name)"},"#
            + #"{"system":"http://loinc.org","code":"\#(loinc)"}]"#
    }

    @Test("blood pressure with a pulse and without a mean")
    func bloodPressure() throws {
        var bundle = FHIRBundle()
        let reading = try Samples.reading(
            Samples.pressures(), id: 2, device: Samples.cuff, status: .irregularPulse)
        #expect(try bundle.add(reading, in: Samples.context()).isEmpty)
        let device =
            #"{"fullUrl":"urn:uuid:c6fc3d16-264d-5b40-8be3-3ba45af41905","resource":{"resourceType":"Device","#
            + #""meta":{"profile":["http://hl7.org/fhir/uv/phd/StructureDefinition/PhdDevice"]},"#
            + #""identifier":[{"type":{"coding":[{"#
            + #""system":"http://terminology.hl7.org/CodeSystem/ContinuaDeviceIdentifiers","code":"BTMAC","#
            + #""display":"Bluetooth MAC address"}]},"system":"http://hl7.org/fhir/sid/eui-48/bluetooth","#
            + #""value":"0A-1B-2C-3D-4E-5F"}],"manufacturer":"Omron","serialNumber":"20260101","#
            + #""deviceName":[{"name":"BLESmart_0000","type":"user-friendly-name"}],"modelNumber":"HEM-7361T","#
            + #""type":{"coding":[{"system":"urn:iso:std:iso:11073:10101","code":"65573","#
            + #""display":"MDC_MOC_VMS_MDS_SIMP"}],"text":"Personal health device"},"#
            + #""specialization":[{"systemType":{"coding":[{"system":"urn:iso:std:iso:11073:10101","code":"528391","#
            + #""display":"MDC_DEV_SPEC_PROFILE_BP"}]},"_version":{"extension":[{"#
            + #""url":"http://hl7.org/fhir/StructureDefinition/data-absent-reason","valueCode":"unknown"}]}}]},"#
            + #""request":{"method":"POST","url":"Device","#
            + #""ifNoneExist":"identifier=http://hl7.org/fhir/sid/eui-48/bluetooth|0A-1B-2C-3D-4E-5F"}}"#
        let note =
            #""note":[{"text":"The device's clock could not be read: its time was taken to be that of Europe/Berlin."}],"#
        let deviceReference = #""device":{"reference":"urn:uuid:c6fc3d16-264d-5b40-8be3-3ba45af41905"}"#
        let pressures =
            #"{"fullUrl":"urn:uuid:6b602e3c-eff6-5eb3-a5ad-a83fb7f28a3c","resource":{"resourceType":"Observation","#
            + #""meta":{"profile":["http://hl7.org/fhir/uv/phd/StructureDefinition/PhdCompoundNumericObservation"]},"#
            + #""extension":["# + Self.gatewayExtension + "],"
            + Self.identifiers(
                "6b602e3c-eff6-5eb3-a5ad-a83fb7f28a3c", guide: "0A1B2C3D4E5F-p1-urn:oid:1.2.3-150020-848650500")
            + #","status":"final","category":["# + Self.vitalSigns + "," + Self.phd + #"],"code":"#
            + Self.code("150020", "MDC_PRESS_BLD_NONINV", "85354-9") + #","text":"Blood pressure"},"# + Self.subject
            + #","effectiveDateTime":"2026-11-22T08:15:00+01:00","# + note + deviceReference
            + #","component":[{"code":"# + Self.code("150021", "MDC_PRESS_BLD_NONINV_SYS", "8480-6")
            + #"},"valueQuantity":{"value":128.0,"unit":"mmHg","system":"http://unitsofmeasure.org","code":"mm[Hg]"}},"#
            + #"{"code":"# + Self.code("150022", "MDC_PRESS_BLD_NONINV_DIA", "8462-4")
            + #"},"valueQuantity":{"value":82,"unit":"mmHg","system":"http://unitsofmeasure.org","code":"mm[Hg]"}},"#
            + #"{"code":"# + Self.code("150023", "MDC_PRESS_BLD_NONINV_MEAN", "8478-0")
            + #"},"dataAbsentReason":{"coding":[{"#
            + #""system":"http://terminology.hl7.org/CodeSystem/data-absent-reason","code":"not-a-number"}]}},"#
            + #"{"code":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/ASN1ToHL7","code":"8410608.2","#
            + #""display":"irregular-pulse"}]},"valueBoolean":true}]},"#
            + Self.post("6b602e3c-eff6-5eb3-a5ad-a83fb7f28a3c") + "}"
        let pulse =
            #"{"fullUrl":"urn:uuid:5e4ad406-477f-56bf-a083-b0bb42bc36e0","resource":{"resourceType":"Observation","#
            + #""meta":{"profile":["http://hl7.org/fhir/uv/phd/StructureDefinition/PhdNumericObservation"]},"#
            + #""extension":["# + Self.gatewayExtension + "],"
            + Self.identifiers(
                "5e4ad406-477f-56bf-a083-b0bb42bc36e0", guide: "0A1B2C3D4E5F-p1-urn:oid:1.2.3-149546-848650500")
            + #","status":"final","category":["# + Self.vitalSigns + "," + Self.phd + #"],"code":"#
            + Self.code("149546", "MDC_PULS_RATE_NON_INV", "8867-4") + #","text":"Pulse rate"},"# + Self.subject
            + #","effectiveDateTime":"2026-11-22T08:15:00+01:00","#
            + #""valueQuantity":{"value":64.0,"unit":"beats/minute","system":"http://unitsofmeasure.org","code":"/min"},"#
            + note + deviceReference + "}," + Self.post("5e4ad406-477f-56bf-a083-b0bb42bc36e0") + "}"
        #expect(
            bundle.document.text == #"{"resourceType":"Bundle","type":"transaction","entry":["#
                + [Self.gateway, device, pressures, pulse].joined(separator: ",") + "]}")
    }

    @Test("glucose with its context, from a meter whose clock was read")
    func glucose() throws {
        var context = GlucoseContext()
        context.meal = "fasting"
        let reading = try Samples.reading(
            Samples.glucose("5.90", .millimolesPerLitre), basis: .corrected,
            clock: ClockComparison(differenceSeconds: -65, readAt: Samples.instant("2026-11-22T07:21:07Z")),
            context: context)
        var formatContext = try Samples.context()
        formatContext.device = DeviceFacts()
        var bundle = FHIRBundle(.collection)
        #expect(try bundle.add(reading, in: formatContext).isEmpty)
        let clock = try #require(bundle.document.at("entry.2"))
        #expect(
            clock.text
                == #"{"fullUrl":"urn:uuid:4174f76f-272a-5875-9657-bd20ff35993a","resource":{"resourceType":"Observation","#
                + #""meta":{"profile":["http://hl7.org/fhir/uv/phd/StructureDefinition/PhdCoincidentTimeStampObservation"]},"#
                + #""identifier":[{"type":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/v2-0203","code":"RI"}]},"#
                + #""system":"urn:ietf:rfc:3986","value":"urn:uuid:4174f76f-272a-5875-9657-bd20ff35993a"}],"status":"final","#
                + #""code":{"coding":[{"system":"urn:iso:std:iso:11073:10101","code":"67975","display":"MDC_ATTR_TIME_ABS"}],"#
                + #""text":"Time of the device's clock"},"#
                + #""subject":{"reference":"urn:uuid:1f68e121-0645-5fb2-97ea-521ecd1f8a2d"},"#
                + #""effectiveDateTime":"2026-11-22T08:21:07+01:00","valueDateTime":"2026-11-22T08:20:02+01:00","#
                + #""device":{"reference":"urn:uuid:e898248b-6d6e-514c-abd3-979f7248e4be"}}}"#)
        let observation = try #require(bundle.document.at("entry.3.resource"))
        #expect(
            observation.text
                == #"{"resourceType":"Observation","#
                + #""meta":{"profile":["http://hl7.org/fhir/uv/phd/StructureDefinition/PhdNumericObservation"]},"#
                + #""extension":["# + Self.gatewayExtension
                + #",{"url":"http://hl7.org/fhir/uv/phd/StructureDefinition/CoincidentTimeStampReference","#
                + #""valueReference":{"reference":"urn:uuid:4174f76f-272a-5875-9657-bd20ff35993a"}}],"#
                + Self.identifiers(
                    "d38a9fd2-20ce-5d8f-928c-a9c4e05c7b46", guide: "C00000001808-p1-urn:oid:1.2.3-160184-848650500")
                + #","status":"final","category":["# + Self.phd + #"],"code":"#
                + Self.code("160184", "MDC_CONC_GLU_CAPILLARY_WHOLEBLOOD", "14743-9") + #","text":"Glucose"},"#
                + #""subject":{"type":"Patient","identifier":{"system":"urn:oid:1.2.3","value":"p1"}},"#
                + #""effectiveDateTime":"2026-11-22T08:15:00+01:00","#
                + #""valueQuantity":{"value":5.90,"unit":"mmol/L","system":"http://unitsofmeasure.org","code":"mmol/L"},"#
                + #""device":{"reference":"urn:uuid:1f68e121-0645-5fb2-97ea-521ecd1f8a2d"},"#
                + #""component":[{"code":{"coding":[{"system":"urn:iso:std:iso:11073:10101","code":"8417844","#
                + #""display":"MDC_CTXT_GLU_SAMPLELOCATION"}]},"valueCodeableConcept":{"coding":[{"#
                + #""system":"urn:iso:std:iso:11073:10101","code":"8417848","#
                + #""display":"MDC_CTXT_GLU_SAMPLELOCATION_FINGER"}],"text":"finger"}},"#
                + #"{"code":{"coding":[{"system":"urn:iso:std:iso:11073:10101","code":"8417864","#
                + #""display":"MDC_CTXT_GLU_MEAL"}]},"valueCodeableConcept":{"coding":[{"#
                + #""system":"urn:iso:std:iso:11073:10101","code":"8417876","display":"MDC_CTXT_GLU_MEAL_FASTING"}],"#
                + #""text":"fasting"}}]}"#)
        // Nobody said who made the device: the profile wants the element, and FHIR has a way to say that it's not known.
        #expect(
            bundle.document.at("entry.1.resource._manufacturer.extension.0.valueCode") == "unknown")
        #expect(bundle.document.at("entry.1.resource.modelNumber") == "accuchek_guide")
    }
}
