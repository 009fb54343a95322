/// A brand people know their meter by.
public struct Brand: Sendable, Hashable, Identifiable {
    /// Its name as the makers write it: `Accu-Chek`.
    public var name: String
    /// The name.
    public var id: String { name }
    /// Whether it stands for meters of no listed model, read by their standard services.
    public var isGeneric: Bool { name == "Generic" }

    /// Makes a brand of its name.
    public init(name: String) { self.name = name }
}

extension Brand: Comparable, CustomStringConvertible {
    /// By name without regard to case; the generic one stands last.
    public static func < (lhs: Brand, rhs: Brand) -> Bool {
        guard lhs.isGeneric == rhs.isGeneric else { return rhs.isGeneric }
        return (lhs.name.lowercased(), lhs.name) < (rhs.name.lowercased(), rhs.name)
    }

    /// The name.
    public var description: String { name }
}

extension Catalogue {
    /// The brands it knows, in alphabetical order, the generic one last.
    public var brands: [Brand] { Set(models.map { Brand(name: $0.brand) }).sorted() }

    /// The models of a brand, in the catalogue's order.
    public func devices(for brand: Brand) -> [DeviceModel] { models.filter { $0.brand == brand.name } }
}
