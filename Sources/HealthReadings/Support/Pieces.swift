extension Array {
    /// The elements in their order, so many at a time; the last piece may be shorter.
    package func pieces(of size: Int) -> some Sequence<[Element]> {
        stride(from: 0, to: count, by: size).lazy.map { Array(self[$0..<Swift.min($0 + size, count)]) }
    }
}
