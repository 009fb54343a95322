import HealthReadings

/// The translations of one language, as `Catalogues/de.json` has them: the English sentence is the key.
struct Catalogue: Sendable {
    let templates: [String: Template]

    /// The catalogue of each language but English.
    static let all: [Language: Catalogue] = [
        .german: Catalogue(PackageResources.de_json), .french: Catalogue(PackageResources.fr_json),
        .spanish: Catalogue(PackageResources.es_json), .arabic: Catalogue(PackageResources.ar_json),
    ]

    /// The octets of the file of a language; none for English.
    static func octets(_ language: Language) -> [UInt8] {
        switch language {
        case .english: []
        case .german: PackageResources.de_json
        case .french: PackageResources.fr_json
        case .spanish: PackageResources.es_json
        case .arabic: PackageResources.ar_json
        }
    }

    /// Reads a file; what is no text in it is not translated.
    init(_ octets: [UInt8]) {
        templates = Dictionary(
            Self.entries(octets).map { ($0.key, Template($0.text)) }, uniquingKeysWith: { first, _ in first })
    }

    /// The keys with their translations, in the order of the file.
    static func entries(_ octets: [UInt8]) -> [(key: String, text: String)] {
        let members = (try? JSONReader.read(octets, mostMembers: 4096))?.members ?? []
        return members.compactMap { member in member.node.text.map { (member.key, $0) } }
    }
}
