import GATTClient
import HealthReadings

/// The models the gateway knows.
///
/// Names, services and provider slugs are the makers' and the server's, as public projects and the server's interface
/// name them. A meter that is not listed is read by its standard service as a generic one. Finding a model costs the
/// same however many there are.
public struct Catalogue: Sendable {
    /// All models; generic ones last.
    public let models: [DeviceModel]

    private let index: CatalogueIndex
    /// The models with quirks, measuring ranges, or a memory or values of their own: what each frame asks for is found, or
    /// found missing, without touching an entry.
    private let odd: [String: DeviceModel]

    private static let standard = Catalogue(models: known)

    /// The catalogue of the models the gateway knows.
    public init() { self = Self.standard }

    /// A catalogue of these models. Of two with the same id, name or service the first counts.
    public init(models: [DeviceModel]) {
        self.models = models
        index = CatalogueIndex(models)
        odd = Dictionary(
            models.filter { !$0.quirks.isEmpty || !$0.ranges.isEmpty || $0.omronMemory != nil || $0.measuresOnCommand }
                .map { ($0.id, $0) }
        ) { first, _ in
            first
        }
    }

    /// The entries the gateway comes with: one file for each kind of device, in which its models are added.
    public static let known = glucoseMeters + cuffs + ownProtocols + sensors + omronMonitors + generic

    /// The model with this id.
    public subscript(id: String) -> DeviceModel? { index.place(id: id).map { models[$0] } }

    /// The model with this id, where it has quirks or measuring ranges.
    func odd(_ id: String?) -> DeviceModel? { id.flatMap { odd[$0] } }

    /// The model that advertises like this: by name first, then by what it says of its services, by its service else; nil
    /// for what is no meter.
    ///
    /// Of the rules that match a name the longest counts.
    public func model(for advertisement: Advertisement) -> DeviceModel? {
        if let name = advertisement.name {
            let places = index.places(named: name)
            if let place = places.first(where: { models[$0].marks.isEmpty }) ?? places.first { return models[place] }
        }
        if let id = XiaomiScale.model(of: advertisement), let model = self[id] { return model }
        return index.place(offering: advertisement.services).map { models[$0] }
    }

    /// The models that a device may be and that neither name nor services tell apart: a person says which, by its label.
    ///
    /// - Returns: nothing for a device whose model is told by its name, or is not known at all.
    public func choices(for advertisement: Advertisement) -> [DeviceModel] {
        let found = model(for: advertisement)
        let brand = OmronAdvertisement(advertisement) == nil ? found?.brand : Self.omron
        return models.filter { model in
            model.brand == brand && found.map { model.standsFor.contains($0.id) } ?? !model.standsFor.isEmpty
        }
    }

    /// The model of a device that a person has said to be one that no name tells.
    ///
    /// - Parameters:
    ///   - found: what its name and services make it.
    ///   - known: the id it is remembered by.
    /// - Returns: the model that was said, where that may stand for what was found; else what was found.
    func model(_ found: DeviceModel?, knownAs known: String?) -> DeviceModel? {
        guard let known = known.flatMap({ self[$0] }), !known.standsFor.isEmpty,
            found.map({ known.standsFor.contains($0.id) }) ?? true
        else { return found }
        return known
    }

    /// The model of a device that was connected and found to offer this.
    ///
    /// A device with the name of a model and none of its services is not that model: it is what its services make it,
    /// or nothing.
    public func model(for advertisement: Advertisement, offering offered: OfferedServices) -> DeviceModel? {
        if let name = advertisement.name {
            let credible = index.places(named: name).map { models[$0] }.filter { model in
                !offered.services.isDisjoint(with: model.services) && offered.places.isSuperset(of: model.marks)
            }
            if let model = credible.first(where: { !$0.marks.isEmpty }) ?? credible.first { return model }
        }
        return index.place(offering: offered.services.union(advertisement.services)).map { models[$0] }
    }
}
