extension String {
    /// The digits of a number that is not negative, with zeros before them up to this many.
    package init(_ number: some BinaryInteger, digits: Int, radix: Int = 10) {
        let text = String(number, radix: radix)
        self = String(repeating: "0", count: Swift.max(0, digits - text.utf8.count)) + text
    }
}
