import HealthReadings

extension GlucoseMeasurementContext {
    /// The context under the specification's names, amounts in grams, milligrams, millilitres and per cent.
    ///
    /// Numbers the specification reserves are named `reserved`; what was not sent is nil.
    public var context: GlucoseContext {
        var context = GlucoseContext()
        if let carbohydrate {
            context.carbohydrate = GlucoseContext.Intake(
                id: Self.name(carbohydrate.id, Self.carbohydrates),
                amount: Quantity(carbohydrate.amount.number.scaled(byPowerOfTen: 3), .grams))
        }
        context.meal = meal.map { Self.name($0, Self.meals) }
        if let testerAndHealth {
            context.tester = Self.name(testerAndHealth & 0x0F, Self.testers, notAvailable: 15)
            context.health = Self.name(testerAndHealth >> 4, Self.healths, notAvailable: 15)
        }
        if let exercise {
            context.exercise = GlucoseContext.Exercise(
                seconds: exercise.duration == .max ? nil : exercise.duration, intensityPercent: exercise.intensity)
        }
        if let medication {
            let number = medication.amount.number
            context.medication = GlucoseContext.Intake(
                id: Self.name(medication.id, Self.medications),
                amount: medication.unit == .kilograms
                    ? Quantity(number.scaled(byPowerOfTen: 6), .milligrams)
                    : Quantity(number.scaled(byPowerOfTen: 3), .millilitres))
        }
        context.hba1c = hba1c.map { Quantity($0.number, .percent) }
        return context
    }

    // The specification numbers each of these from 1.
    private static let carbohydrates = ["breakfast", "lunch", "dinner", "snack", "drink", "supper", "brunch"]
    private static let meals = ["preprandial", "postprandial", "fasting", "casual", "bedtime"]
    private static let testers = ["self", "health_care_professional", "lab_test"]
    private static let healths = [
        "minor_health_issues", "major_health_issues", "during_menses", "under_stress", "no_health_issues",
    ]
    private static let medications = [
        "rapid_acting_insulin", "short_acting_insulin", "intermediate_acting_insulin", "long_acting_insulin",
        "pre_mixed_insulin",
    ]

    private static func name(_ number: UInt8, _ names: [String], notAvailable: UInt8? = nil) -> String {
        if number == notAvailable { return "not_available" }
        return (1...names.count).contains(Int(number)) ? names[Int(number) - 1] : "reserved"
    }
}
