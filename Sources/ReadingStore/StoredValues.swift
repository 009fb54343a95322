import GRDB

extension Row {
    /// A column's value. GRDB's subscript traps where the file holds another type, or NULL, in a column that the schema
    /// says otherwise of.
    ///
    /// - Throws: ``StoreError/corrupt(detail:)``.
    func value<Value: DatabaseValueConvertible>(_ index: Int) throws -> Value {
        do { return try decode(Value.self, atIndex: index) } catch {
            throw StoreError.corrupt(detail: "column \(index + 1) of a row holds no \(Value.self)")
        }
    }
}
