/// The closed lists of the Vital API (its published OpenAPI document and SDKs, November 2026).
enum Vocabulary {
    /// Providers a client may connect by itself (`/v2/link/provider/manual/{slug}`), with the name shown to people.
    static let manualProviders: [(slug: String, name: String)] = [
        ("beurer_ble", "Beurer"), ("omron_ble", "Omron"), ("accuchek_ble", "Accu-Chek"), ("contour_ble", "Contour"),
        ("freestyle_libre_ble", "FreeStyle Libre"), ("onetouch_ble", "OneTouch"), ("apple_health_kit", "Apple Health"),
        ("health_connect", "Health Connect"), ("manual", "Manual"),
    ]
    static let providerSlugs = manualProviders.map(\.slug)

    /// Providers that a person connects on the link's page by signing in there; some of the API's many.
    static let consentProviders: [(slug: String, name: String)] = [
        ("abbott_libreview", "Abbott LibreView"), ("dexcom_v3", "Dexcom"), ("fitbit", "Fitbit"),
        ("freestyle_libre", "FreeStyle Libre (practice)"), ("garmin", "Garmin"), ("omron", "OMRON connect"),
        ("oura", "Oura"), ("polar", "Polar"), ("whoop", "WHOOP"), ("withings", "Withings"),
    ]
    /// Every provider that can be a connected source here.
    static let linkableSlugs = providerSlugs + consentProviders.map(\.slug)

    static let sourceTypes = [
        "unknown", "phone", "watch", "app", "ring", "chest_strap", "multiple_sources", "automatic", "manual_scan",
        "cuff", "fingerprick", "scale", "insulin_pump", "lab", "exercise_machine", "earphone",
    ]
    static let summaries = [
        "profile", "body", "activity", "sleep", "workouts", "menstrual_cycle", "meal", "electrocardiogram",
    ]
    static let stages = ["daily", "historical"]
    static let statuses = ["connected", "error", "paused"]

    /// Time series a client may write that this sandbox does not take yet.
    static let unsupportedResources = [
        "basal_body_temperature", "respiratory_rate", "steps", "distance", "calories_active", "calories_basal",
        "floors_climbed", "water", "caffeine", "mindfulness_minutes", "vo2_max",
    ]

    static func name(of slug: String) -> String {
        (manualProviders + consentProviders).first { $0.slug == slug }?.name ?? slug
    }
}

/// A series of samples, by the name it is written by. The lists of the body summary are series too.
enum SampleResource: String, Sendable, CaseIterable {
    case glucose
    case bloodPressure = "blood_pressure"
    case bloodOxygen = "blood_oxygen"
    case temperature
    case heartrate
    case heartrateVariability = "heartrate_variability"
    case bodyMass = "body_mass"
    case bodyFatPercentage = "body_fat_percentage"
    case bodyMassIndex = "body_mass_index"
    case waistCircumference = "waist_circumference"
    case leanBodyMass = "lean_body_mass"

    /// The lists of a body summary, in the order of its description.
    static let ofBody: [SampleResource] = [
        .bodyMass, .bodyFatPercentage, .bodyMassIndex, .waistCircumference, .leanBodyMass,
    ]

    /// The time series that is posted under a name; nil where there is none.
    static func written(as name: String) -> SampleResource? {
        SampleResource(rawValue: name).flatMap { ofBody.contains($0) ? nil : $0 }
    }

    /// The series that is read under a name; nil where there is none.
    static func read(as name: String) -> SampleResource? { allCases.first { $0.readName == name } }

    /// The name it is read by (the API's reference, `GET /v2/timeseries/{user_id}/…/grouped`).
    var readName: String {
        switch self {
        case .glucose, .bloodPressure, .bloodOxygen, .heartrate, .bodyMassIndex, .waistCircumference, .leanBodyMass:
            rawValue
        case .temperature: "body_temperature"
        case .heartrateVariability: "hrv"
        case .bodyMass: "body_weight"
        case .bodyFatPercentage: "body_fat"
        }
    }

    /// The unit of its values.
    var unit: String {
        switch self {
        case .glucose: "mmol/L"
        case .bloodPressure: "mmHg"
        case .bloodOxygen, .bodyFatPercentage: "%"
        case .temperature: "°C"
        case .heartrate: "bpm"
        case .heartrateVariability: "rmssd"
        case .bodyMass, .leanBodyMass: "kg"
        case .bodyMassIndex: "index"
        case .waistCircumference: "centimeter"
        }
    }
}
