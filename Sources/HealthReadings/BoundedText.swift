extension String {
    /// The beginning of the text with at most so many octets; no scalar is cut in two.
    ///
    /// A number of `Character`s is no bound: one of them can have any number of combining marks.
    package func cut(toOctets most: Int) -> String {
        guard utf8.count > most else { return self }
        var end = utf8.index(startIndex, offsetBy: most)
        while end > startIndex, Index(end, within: unicodeScalars) == nil { end = utf8.index(before: end) }
        return String(unicodeScalars[..<end])
    }
}
