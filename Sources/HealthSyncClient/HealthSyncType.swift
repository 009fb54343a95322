/// The names of data types in the app. Phones may send others: newer versions of the app have more.
public enum HealthSyncType {
    /// The types of the app's first version, all of which every later one has.
    ///
    /// Source: the iOS Health Sync App, `HealthDataType`.
    public static let published: Set<String> = [
        "steps", "distanceWalkingRunning", "distanceCycling", "activeEnergyBurned", "basalEnergyBurned", "exerciseTime",
        "standHours", "flightsClimbed", "workouts", "heartRate", "restingHeartRate", "walkingHeartRateAverage",
        "heartRateVariability", "bloodPressureSystolic", "bloodPressureDiastolic", "bloodOxygen", "respiratoryRate",
        "bodyTemperature", "vo2Max", "sleepAnalysis", "sleepInBed", "sleepAsleep", "sleepAwake", "sleepREM",
        "sleepCore", "sleepDeep", "weight", "height", "bodyMassIndex", "bodyFatPercentage", "leanBodyMass",
    ]

    /// The types that are parts of `sleepAnalysis`: the app filters them out of it after it has counted a page.
    public static let sleepStages: Set<String> = [
        "sleepInBed", "sleepAsleep", "sleepAwake", "sleepREM", "sleepCore", "sleepDeep",
    ]

    /// Whether a text can be a type's name: 1 to 64 ASCII letters and digits.
    public static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
            }
    }
}
