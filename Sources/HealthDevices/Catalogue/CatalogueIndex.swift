import GATTClient

/// Finds a model by id, name or service without looking at the others.
///
/// Names are found in a tree of their octets: what is near advertises names that part from every entry's in the first
/// octets, and a name costs its own length at most, however many entries there are.
struct CatalogueIndex: Sendable {
    private struct Node: Sendable {
        var exact: [Int] = []
        var prefix: [Int] = []
        var beforeDigit: [Int] = []
    }

    private var nodes = [Node()]
    /// Node and octet → node.
    private var edges: [UInt64: Int] = [:]
    /// The nodes behind the root, where most walks end; 0 where there is none.
    private var firsts = [Int](repeating: 0, count: 256)
    private var byService: [BluetoothUUID: Int] = [:]
    private var byID: [String: Int] = [:]

    init(_ models: [DeviceModel]) {
        for (place, model) in models.enumerated() {
            if byID[model.id] == nil { byID[model.id] = place }
            // Only a person tells these from others.
            guard model.standsFor.isEmpty else { continue }
            if model.names.isEmpty {
                for service in model.services where byService[service] == nil { byService[service] = place }
            }
            for rule in model.names { add(rule, place) }
        }
    }

    private mutating func add(_ rule: NameRule, _ place: Int) {
        var node = 0
        for octet in rule.text.utf8 {
            if let next = self.next(node, octet) {
                node = next
                continue
            }
            nodes.append(Node())
            let made = nodes.count - 1
            if node == 0 { firsts[Int(octet)] = made } else { edges[Self.key(node, octet)] = made }
            node = made
        }
        switch rule {
        case .exact: nodes[node].exact.append(place)
        case .prefix: nodes[node].prefix.append(place)
        case .prefixAndDigit: nodes[node].beforeDigit.append(place)
        }
    }

    private static func key(_ node: Int, _ octet: UInt8) -> UInt64 { UInt64(node) << 8 | UInt64(octet) }

    @inline(__always)
    private func next(_ node: Int, _ octet: UInt8) -> Int? {
        if node == 0 { return firsts[Int(octet)] == 0 ? nil : firsts[Int(octet)] }
        return edges[Self.key(node, octet)]
    }

    /// The place of the model with this id.
    func place(id: String) -> Int? { byID[id] }

    /// The places of the models whose rule says most of this name: the whole name, else the longest beginning. Several
    /// where a name does not tell them apart; none where no rule matches.
    func places(named name: String) -> [Int] {
        var (node, found) = (0, [Int]())
        for octet in name.utf8 {
            let here = nodes[node]
            if !here.prefix.isEmpty { found = here.prefix }
            if !here.beforeDigit.isEmpty, NameRule.isDigit(octet) { found = here.beforeDigit }
            guard let next = next(node, octet) else { return found }
            node = next
        }
        if !nodes[node].exact.isEmpty { return nodes[node].exact }
        return nodes[node].prefix.isEmpty ? found : nodes[node].prefix
    }

    /// The place of the first entry without names that has one of these services.
    func place(offering services: some Sequence<BluetoothUUID>) -> Int? {
        var first: Int?
        for service in services {
            if let place = byService[service], place < first ?? .max { first = place }
        }
        return first
    }
}
