import LibDBus

/// What a `PropertiesChanged` signal says.
struct PropertyChange: Sendable, Hashable {
    var changed: [String: DBusValue] = [:]
    /// Properties that have no value any more.
    var invalidated: [String] = []

    init(changed: [String: DBusValue] = [:], invalidated: [String] = []) {
        self.changed = changed
        self.invalidated = invalidated
    }

    /// Nil where the signal is no change of properties.
    init?(_ signal: borrowing DBusSignal) {
        var values: [String: DBusValue] = [:]
        guard signal.forEachChangedProperty({ values[$0.name] = $0.value }) else { return nil }
        self.init(changed: values, invalidated: signal.invalidatedProperties())
    }
}
