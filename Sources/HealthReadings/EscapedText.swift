extension String {
    /// The text with some characters written otherwise, each wherever it stands.
    ///
    /// `replacing(_:with:)` compares what a reader takes for one letter: it leaves a quotation mark alone that a combining mark
    /// follows, and the name of a device could end the text in quotes that it is written into.
    package func escaping(_ escapes: [Unicode.Scalar: String]) -> String {
        var escaped = UnicodeScalarView()
        for scalar in unicodeScalars {
            if let escape = escapes[scalar] {
                escaped.append(contentsOf: escape.unicodeScalars)
            } else {
                escaped.append(scalar)
            }
        }
        return String(escaped)
    }
}
