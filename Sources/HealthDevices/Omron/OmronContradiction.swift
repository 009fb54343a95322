import HealthReadings

/// Whether what stands in a monitor's settings contradicts the layout that it is read by.
///
/// Under another model's layout the sums of records may hold, and one user's records become another's. A monitor is refused
/// only if that is certain: its own index makes no sense for any user, another layout of the catalogue explains what is there,
/// and by that layout something stands where this one has other things.
struct OmronContradiction {
    /// What a word of the index says of its user.
    private enum Word {
        case position
        /// Nothing was recorded.
        case none
        /// A new ring's first slot, or octets that are blank.
        case zero
        /// A slot behind the end of the ring.
        case beyond
        /// Bits that no position has.
        case senseless
    }

    /// Another model whose layout may be the monitor's.
    struct Candidate {
        let model: DeviceModel
        let memory: OmronMemory
    }

    let memory: OmronMemory
    /// The models that are spoken with over the same channels.
    let candidates: [Candidate]

    init(_ memory: OmronMemory, in models: [DeviceModel] = Catalogue.omronMonitors) {
        self.memory = memory
        candidates = models.compactMap { model in
            guard let other = model.omronMemory, other != memory, other.layout.order != nil,
                other.stack.channels == memory.stack.channels
            else { return nil }
            return Candidate(model: model, memory: other)
        }
    }

    private static func words(_ index: [UInt8], by memory: OmronMemory) -> [Word]? {
        guard let order = memory.layout.order, index.count >= OmronIndex.length else { return nil }
        let words = OmronWords(index, order)
        return memory.users.indices.map { user in
            let word = words[user]
            if word == 0 { return .zero }
            if word == OmronIndex.none { return .none }
            guard word & OmronIndex.unused == 0 else { return .senseless }
            return Int(word & 0xFF) <= memory.count ? .position : .beyond
        }
    }

    /// Whether the index needs no explanation. Where no source says how its words stand, it is not judged.
    func isPlausible(_ index: [UInt8]) -> Bool {
        guard let words = Self.words(index, by: memory) else { return true }
        return words.allSatisfy { $0 == .none } || Self.explains(index, memory)
    }

    /// The models whose rings are longer, if the index points behind the end of this one's for every user with records; with each
    /// the slot of its newest record.
    ///
    /// What stands behind the end of the first user's ring would be the second user's: a model with one user is not judged.
    ///
    /// - Parameter index: the octets of the index. The monitor's clock runs where the layout has it.
    func withLongerRings(_ index: [UInt8]) -> [(candidate: Candidate, newest: UInt16)] {
        guard memory.users.count > 1, let words = Self.words(index, by: memory),
            let user = words.firstIndex(of: .beyond), words.allSatisfy({ $0 == .beyond || $0 == .none })
        else { return [] }
        let count = (words.lastIndex(of: .beyond) ?? user) + 1
        return candidates.compactMap { candidate in
            let other = candidate.memory
            guard other.layout == memory.layout, other.settings == memory.settings, other.clock == memory.clock,
                other.users[0] == memory.users[0], other.count > memory.count, other.users.count >= count,
                Self.explains(index, other), case .newest(let slot, _) = other.position(of: user, in: index)
            else { return nil }
            return (candidate, other.address(slot, of: user))
        }
    }

    /// Whether an index makes sense by a layout, for at least one user who has records.
    static func explains(_ index: [UInt8], _ memory: OmronMemory) -> Bool {
        guard let words = words(index, by: memory) else { return false }
        return words.contains(.position) && words.allSatisfy { $0 == .position || $0 == .none || $0 == .zero }
    }

    /// The first slots of another layout's users who have records. A record there proves the other layout, since this one has
    /// records where the other has its settings, or has these slots for somebody else or for nobody.
    func proofs(of other: OmronMemory, _ index: [UInt8]) -> [UInt16] {
        guard let words = Self.words(index, by: other) else { return [] }
        let recorded = words.indices.filter { words[$0] == .position }
        let settings = Int(other.settings)..<Int(other.settings + other.clock.upperBound)
        let hasRecordsInSettings = memory.users.contains { start in
            (Int(start)..<(Int(start) + memory.count * memory.layout.length)).overlaps(settings)
        }
        return recorded.filter { hasRecordsInSettings || memory.user(at: other.users[$0]) != $0 }
            .map { other.users[$0] }
    }

    /// Refuses the monitor, which these models explain.
    static func refusal(of model: DeviceModel, explainedBy models: [DeviceModel]) -> TransferError {
        let names = models.map(\.id).joined(separator: " or ")
        return .refused(
            code: "omron_wrong_model",
            description: "the monitor's memory is laid out as that of \(names), and it is paired as \(model.id), "
                + "\(model.name); no record is read")
    }
}
