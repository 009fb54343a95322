extension Collection {
    /// The collection itself; `nil` if it is empty.
    package var nonEmpty: Self? { isEmpty ? nil : self }
}
