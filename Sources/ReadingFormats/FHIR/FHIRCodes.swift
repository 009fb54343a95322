import HealthReadings

/// The codes of ISO/IEEE 11073-10101 (with their LOINC codes) for what readings have.
///
/// Sources: the tables of the Personal Health Device guide 2.0.0 and its code system ASN1ToHL7; FHIR R4's vital signs; the
/// Continuous Glucose Monitoring guide 1.0.0 for interstitial fluid.
enum FHIRCodes {
    /// The partition of personal health devices: 128.
    private static let devices = 128 << 16

    // MARK: - Glucose

    /// LOINC has a code for a concentration in mass and another for one in substance.
    static func glucose(_ sample: GlucoseSampleType?, _ unit: MeasurementUnit) -> [FHIRCoding] {
        let isMolar = unit == .millimolesPerLitre
        switch sample {
        case .capillaryWholeBlood:
            return [.mdc(160184, "MDC_CONC_GLU_CAPILLARY_WHOLEBLOOD"), .loinc(isMolar ? "14743-9" : "41653-7")]
        case .capillaryPlasma:
            return [.mdc(160188, "MDC_CONC_GLU_CAPILLARY_PLASMA"), .loinc(isMolar ? "14743-9" : "41653-7")]
        case .venousWholeBlood:
            return [.mdc(160192, "MDC_CONC_GLU_VENOUS_WHOLEBLOOD"), .loinc(isMolar ? "15074-8" : "2339-0")]
        case .venousPlasma:
            return [.mdc(160196, "MDC_CONC_GLU_VENOUS_PLASMA"), .loinc(isMolar ? "14749-6" : "2345-7")]
        case .arterialWholeBlood:
            return [.mdc(160200, "MDC_CONC_GLU_ARTERIAL_WHOLEBLOOD"), .loinc(isMolar ? "15074-8" : "2339-0")]
        case .arterialPlasma:
            return [.mdc(160204, "MDC_CONC_GLU_ARTERIAL_PLASMA"), .loinc(isMolar ? "14749-6" : "2345-7")]
        case .undeterminedWholeBlood:
            return [.mdc(160364, "MDC_CONC_GLU_UNDETERMINED_WHOLEBLOOD"), .loinc(isMolar ? "15074-8" : "2339-0")]
        case .undeterminedPlasma:
            return [.mdc(160368, "MDC_CONC_GLU_UNDETERMINED_PLASMA"), .loinc(isMolar ? "14749-6" : "2345-7")]
        case .interstitialFluid:
            return [.mdc(160212, "MDC_CONC_GLU_ISF"), .loinc(isMolar ? "105272-9" : "99504-3")]
        case .controlSolution: return [.mdc(160208, "MDC_CONC_GLU_CONTROL")]
        case .reserved, nil: return [.mdc(160020, "MDC_CONC_GLU_GEN")]
        }
    }

    static let sampleLocation = FHIRCoding.mdc(devices + 29236, "MDC_CTXT_GLU_SAMPLELOCATION")

    static func location(_ location: GlucoseSampleLocation) -> FHIRCoding? {
        switch location {
        case .finger: .mdc(devices + 29240, "MDC_CTXT_GLU_SAMPLELOCATION_FINGER")
        case .alternateSite: .mdc(devices + 29244, "MDC_CTXT_GLU_SAMPLELOCATION_AST")
        case .earlobe: .mdc(devices + 29248, "MDC_CTXT_GLU_SAMPLELOCATION_EARLOBE")
        case .controlSolution: .mdc(devices + 29252, "MDC_CTXT_GLU_SAMPLELOCATION_CTRLSOLUTION")
        case .subcutaneousTissue: .mdc(devices + 29241, "MDC_CTXT_GLU_SAMPLELOCATION_SUBCUTANEOUS")
        case .reserved, .notAvailable: nil
        }
    }

    static let trend = FHIRCoding.mdc(devices + 29400, "MDC_CONC_GLU_TREND")

    // MARK: - What a person told the glucose meter

    static let meal = FHIRCoding.mdc(devices + 29256, "MDC_CTXT_GLU_MEAL")
    /// Without bedtime: published lists disagree on its code (29261, 29300), and it is written as text.
    static let meals: [String: FHIRCoding] = [
        "preprandial": .mdc(devices + 29260, "MDC_CTXT_GLU_MEAL_PREPRANDIAL"),
        "postprandial": .mdc(devices + 29264, "MDC_CTXT_GLU_MEAL_POSTPRANDIAL"),
        "fasting": .mdc(devices + 29268, "MDC_CTXT_GLU_MEAL_FASTING"),
        "casual": .mdc(devices + 29272, "MDC_CTXT_GLU_MEAL_CASUAL"),
    ]
    static let carbohydrates: [String: FHIRCoding] = [
        "breakfast": .mdc(devices + 29160, "MDC_CTXT_GLU_CARB_BREAKFAST"),
        "lunch": .mdc(devices + 29164, "MDC_CTXT_GLU_CARB_LUNCH"),
        "dinner": .mdc(devices + 29168, "MDC_CTXT_GLU_CARB_DINNER"),
        "snack": .mdc(devices + 29172, "MDC_CTXT_GLU_CARB_SNACK"),
        "drink": .mdc(devices + 29176, "MDC_CTXT_GLU_CARB_DRINK"),
        "supper": .mdc(devices + 29180, "MDC_CTXT_GLU_CARB_SUPPER"),
        "brunch": .mdc(devices + 29184, "MDC_CTXT_GLU_CARB_BRUNCH"),
    ]
    static let medications: [String: FHIRCoding] = [
        "rapid_acting_insulin": .mdc(devices + 29192, "MDC_CTXT_MEDICATION_RAPIDACTING"),
        "short_acting_insulin": .mdc(devices + 29196, "MDC_CTXT_MEDICATION_SHORTACTING"),
        "intermediate_acting_insulin": .mdc(devices + 29200, "MDC_CTXT_MEDICATION_INTERMEDIATEACTING"),
        "long_acting_insulin": .mdc(devices + 29204, "MDC_CTXT_MEDICATION_LONGACTING"),
        "pre_mixed_insulin": .mdc(devices + 29208, "MDC_CTXT_MEDICATION_PREMIX"),
    ]
    static let tester = FHIRCoding.mdc(devices + 29276, "MDC_CTXT_GLU_TESTER")
    static let testers: [String: FHIRCoding] = [
        "self": .mdc(devices + 29280, "MDC_CTXT_GLU_TESTER_SELF"),
        "health_care_professional": .mdc(devices + 29284, "MDC_CTXT_GLU_TESTER_HCP"),
        "lab_test": .mdc(devices + 29288, "MDC_CTXT_GLU_TESTER_LAB"),
    ]
    static let health = FHIRCoding.mdc(devices + 29212, "MDC_CTXT_GLU_HEALTH")
    static let healths: [String: FHIRCoding] = [
        "minor_health_issues": .mdc(devices + 29216, "MDC_CTXT_GLU_HEALTH_MINOR"),
        "major_health_issues": .mdc(devices + 29220, "MDC_CTXT_GLU_HEALTH_MAJOR"),
        "during_menses": .mdc(devices + 29224, "MDC_CTXT_GLU_HEALTH_MENSES"),
        "under_stress": .mdc(devices + 29228, "MDC_CTXT_GLU_HEALTH_STRESS"),
        "no_health_issues": .mdc(devices + 29232, "MDC_CTXT_GLU_HEALTH_NONE"),
    ]
    static let exercise = FHIRCoding.mdc(devices + 29152, "MDC_CTXT_GLU_EXERCISE")
    static let hba1c: [FHIRCoding] = [.mdc(160220, "MDC_CONC_HBA1C"), .loinc("4548-4")]

    // MARK: - Status

    /// What the guide's base profile has for a measurement that the device itself calls questionable.
    static let questionable = FHIRCoding(
        system: "http://hl7.org/fhir/uv/pocd/CodeSystem/measurement-status", code: "questionable",
        display: "Questionable")

    static let glucoseStatus: [(ReadingStatus, FHIRCoding)] = [
        (.deviceBatteryLow, .bit("8417752.0", "device-battery-low")),
        (.sensorMalfunction, .bit("8417752.1", "sensor-malfunction")),
        (.sampleInsufficient, .bit("8417752.2", "sensor-sample-size-insufficient")),
        (.stripInsertionError, .bit("8417752.3", "sensor-strip-insertion")),
        (.stripTypeIncorrect, .bit("8417752.4", "sensor-strip-type-incorrect")),
        (.resultTooHigh, .bit("8417752.5", "sensor-result-too-high")),
        (.resultTooLow, .bit("8417752.6", "sensor-result-too-low")),
        (.temperatureTooHigh, .bit("8417752.7", "sensor-temp-too-high")),
        (.temperatureTooLow, .bit("8417752.8", "sensor-temp-too-low")),
        (.readInterrupted, .bit("8417752.9", "sensor-read-interrupt")),
        (.generalFault, .bit("8417752.10", "device-gen-fault")),
    ]
    static let bloodPressureStatus: [(ReadingStatus, FHIRCoding)] = [
        (.bodyMovement, .bit("8410608.0", "body-movement")),
        (.cuffTooLoose, .bit("8410608.1", "cuff-too-loose")),
        (.irregularPulse, .bit("8410608.2", "irregular-pulse")),
        (.pulseRateTooHigh, .bit("8410608.3", "pulse-over-range-limit")),
        (.pulseRateTooLow, .bit("8410608.4", "pulse-under-range-limit")),
        (.improperPosition, .bit("8410608.5", "improper-body-position")),
    ]

    // MARK: - Pressures

    static let bloodPressure: [FHIRCoding] = [.mdc(150020, "MDC_PRESS_BLD_NONINV"), .loinc("85354-9")]
    static let systolic: [FHIRCoding] = [.mdc(150021, "MDC_PRESS_BLD_NONINV_SYS"), .loinc("8480-6")]
    static let diastolic: [FHIRCoding] = [.mdc(150022, "MDC_PRESS_BLD_NONINV_DIA"), .loinc("8462-4")]
    static let mean: [FHIRCoding] = [.mdc(150023, "MDC_PRESS_BLD_NONINV_MEAN"), .loinc("8478-0")]
    static let cuffPulse: [FHIRCoding] = [.mdc(149546, "MDC_PULS_RATE_NON_INV"), .loinc("8867-4")]

    // MARK: - Other vital signs

    /// The codes of a part, with its name in words and whether FHIR counts it among the vital signs; nil without a code.
    static func part(_ part: VitalValue.Part, site: String?) -> ([FHIRCoding], text: String, isVitalSign: Bool)? {
        switch part {
        case .heartRate: ([.mdc(8_454_258, "MDC_HF_HR"), .loinc("8867-4")], "Heart rate", true)
        case .saturation:
            (
                // FHIR's profile asks for 2708-6; 59408-5 is the one for pulse oximetry.
                [.mdc(150456, "MDC_PULS_OXIM_SAT_O2"), .loinc("2708-6"), .loinc("59408-5")], "Oxygen saturation", true
            )
        case .pulse: ([.mdc(149530, "MDC_PULS_OXIM_PULS_RATE"), .loinc("8867-4")], "Pulse rate", true)
        case .temperature: ([temperature(site), .loinc("8310-5")], "Body temperature", true)
        case .weight: ([.mdc(188736, "MDC_MASS_BODY_ACTUAL"), .loinc("29463-7")], "Body weight", true)
        case .bodyMassIndex: ([.mdc(188752, "MDC_RATIO_MASS_BODY_LEN_SQ"), .loinc("39156-5")], "Body mass index", true)
        case .height: ([.mdc(188740, "MDC_LEN_BODY_ACTUAL"), .loinc("8302-2")], "Body height", true)
        case .bodyFat: ([.mdc(188748, "MDC_BODY_FAT"), .loinc("41982-0")], "Body fat", false)
        case .fatFreeMass: ([.mdc(188756, "MDC_MASS_BODY_FAT_FREE")], "Fat-free mass", false)
        case .softLeanMass: ([.mdc(188760, "MDC_MASS_BODY_SOFT_LEAN")], "Soft lean mass", false)
        case .bodyWaterMass: ([.mdc(188764, "MDC_BODY_WATER")], "Body water", false)
        case .sdnn: ([.loinc("80404-7")], "Standard deviation of R-R intervals", false)
        // No code that two public sources agree on.
        case .basalMetabolism, .musclePercentage, .muscleMass, .impedance, .rmssd: nil
        }
    }

    /// The code says where a body temperature was taken; the sites are those of Temperature Type (2A1D).
    private static func temperature(_ site: String?) -> FHIRCoding {
        switch site {
        case "armpit": .mdc(188452, "MDC_TEMP_AXILLA")
        case "ear": .mdc(188428, "MDC_TEMP_EAR")
        case "finger": .mdc(188432, "MDC_TEMP_FINGER")
        case "gastrointestinal_tract": .mdc(188456, "MDC_TEMP_GIT")
        case "mouth": .mdc(188424, "MDC_TEMP_ORAL")
        case "rectum": .mdc(188420, "MDC_TEMP_RECT")
        case "toe": .mdc(188448, "MDC_TEMP_TOE")
        case "tympanum": .mdc(150392, "MDC_TEMP_TYMP")
        default: .mdc(150364, "MDC_TEMP_BODY")
        }
    }
}
