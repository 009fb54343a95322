extension String {
    /// The beginning of the text that has at most so many octets, whole scalars of it.
    ///
    /// A number of `Character`s bounds nothing: one of them can have any number of combining marks.
    package func cut(toOctets most: Int) -> String {
        guard utf8.count > most else { return self }
        var end = utf8.index(startIndex, offsetBy: most)
        while end > startIndex, Index(end, within: unicodeScalars) == nil { end = utf8.index(before: end) }
        return String(unicodeScalars[..<end])
    }
}
