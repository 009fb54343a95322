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

    /// Resources the API lists; those of ``TimeseriesResource`` are built.
    static let listedResources = [
        "glucose", "blood_pressure", "heartrate", "hrv", "blood_oxygen", "body_temperature", "weight", "body_weight",
        "body_fat", "respiratory_rate", "steps", "distance", "calories_active", "calories_basal", "floors_climbed",
        "water", "caffeine", "mindfulness_minutes", "vo2_max",
    ]

    static func name(of slug: String) -> String {
        (manualProviders + consentProviders).first { $0.slug == slug }?.name ?? slug
    }
}

/// A time series the sandbox takes.
enum TimeseriesResource: String, Sendable {
    case glucose
    case bloodPressure = "blood_pressure"
    case bloodOxygen = "blood_oxygen"
    case bodyTemperature = "body_temperature"
    case weight

    /// The unit of its values.
    var unit: String {
        switch self {
        case .glucose: "mmol/L"
        case .bloodPressure: "mmHg"
        case .bloodOxygen: "%"
        case .bodyTemperature: "°C"
        case .weight: "kg"
        }
    }
}
