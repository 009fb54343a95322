import Crypto
import Dispatch
import Foundation
import HealthReadings
import Synchronization

/// Where a sealed blob belongs: a seal holds in its own place only, so that two rows cannot change places.
enum SealedPlace {
    /// The octets of a frame, by its row.
    case frame(Int64)
    /// The content of a reading, by its row.
    case reading(Int64)
    /// A destination's words about a reading, by the reading's row and the destination's.
    case words(Int64, at: Int64)
    /// What tells a device from others of its model, by its row.
    case device(Int64)
    /// What a destination is to take back, by its row.
    case retraction(Int64)
    /// The key by which pruned readings are recognised.
    case pruneKey

    /// What the seal is bound to: a letter for the kind, the row's number big-endian, columns of the row.
    func withOctets<Columns: BoundColumns, Value>(
        and columns: Columns, _ body: (UnsafeRawBufferPointer) throws -> Value
    ) rethrows -> Value {
        let (letter, row, second): (UInt8, Int64, Int64?) =
            switch self {
            case .frame(let row): (UInt8(ascii: "f"), row, nil)
            case .reading(let row): (UInt8(ascii: "r"), row, nil)
            // Earlier versions had one destination.
            case .words(let row, DestinationKey.vital.rawValue): (UInt8(ascii: "w"), row, nil)
            case .words(let row, let destination): (UInt8(ascii: "v"), row, destination)
            case .device(let row): (UInt8(ascii: "d"), row, nil)
            case .retraction(let row): (UInt8(ascii: "t"), row, nil)
            case .pruneKey: (UInt8(ascii: "p"), 0, nil)
            }
        let start = second == nil ? 9 : 17
        return try withUnsafeTemporaryAllocation(byteCount: start + Columns.count, alignment: 1) { octets in
            octets[0] = letter
            octets.storeBytes(of: row.bigEndian, toByteOffset: 1, as: Int64.self)
            if let second { octets.storeBytes(of: second.bigEndian, toByteOffset: 9, as: Int64.self) }
            columns.write(to: UnsafeMutableRawBufferPointer(rebasing: octets[start...]))
            return try body(UnsafeRawBufferPointer(octets))
        }
    }
}

/// The last rows that were there when a store began to be sealed, or to be sealed as it is today: rows up to these may
/// still be as they were until they are sealed anew. Part of what ``KeyList`` authenticates.
struct EarlierRows: Sendable, Hashable {
    var frame: Int64
    var reading: Int64
    var device: Int64

    /// Whichever rows there are: content is, or becomes, in the clear.
    static let all = EarlierRows(frame: .max, reading: .max, device: .max)

    func holds(_ place: SealedPlace) -> Bool {
        switch place {
        case .frame(let row): row <= frame
        case .reading(let row), .words(let row, _): row <= reading
        case .device(let row): row <= device
        case .retraction, .pruneKey: true
        }
    }
}

/// One key and what is derived of it (HKDF-SHA256, RFC 5869).
final class GenerationKeys: Sendable {
    /// Which of the store's keys it is, from 1.
    let generation: UInt64
    /// Whether its seals are bound to the columns of their rows; those of earlier versions are to the row's number alone.
    let bindsColumns: Bool
    /// AES-256-GCM.
    let seal: SymmetricKey
    /// Opens what is sealed under ``seal``.
    let opener: SealOpener
    /// For what rows are found by: of few possible values, a plain hash would tell which it is.
    let index: KeyedCode
    /// For rows that have nothing to seal.
    let tag: KeyedCode
    /// For the list of generations.
    let list: KeyedCode
    /// For people and what destinations know of them.
    let people: KeyedCode

    init(generation: UInt64, key: SymmetricKey, bindsColumns: Bool = true) {
        self.generation = generation
        self.bindsColumns = bindsColumns
        seal = Self.derived(of: key, for: bindsColumns ? "healthrelay seal 2" : "healthrelay seal")
        opener = SealOpener(seal)
        index = KeyedCode(Self.derived(of: key, for: "healthrelay index"))
        tag = KeyedCode(Self.derived(of: key, for: "healthrelay tag"))
        list = KeyedCode(Self.derived(of: key, for: "healthrelay key list"))
        people = KeyedCode(Self.derived(of: key, for: "healthrelay people"))
    }

    private static func derived(of key: SymmetricKey, for purpose: String) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(inputKeyMaterial: key, info: Data(purpose.utf8), outputByteCount: 32)
    }

    func digest(_ octets: [UInt8]) -> [UInt8] { index.code(of: octets) }
}

/// What seals the content of rows and opens it again: AES-256-GCM (NIST SP 800-38D), a fresh random nonce for each seal.
///
/// A sealed blob is: the number of its key (LEB128; 0: it is in the clear), the nonce (12 octets), the sealed octets,
/// the tag (16). Several keys are known only while rows are re-encrypted, and only then is a row taken that is
/// in the clear.
final class Sealing: Sendable {
    struct State: Sendable {
        /// By which generation new rows are sealed; 0: not at all.
        var current: UInt64 = 0
        /// The generations rows may be of, newest first, 0 being those in the clear.
        var inUse: [UInt64] = [0]
        var keys: [UInt64: GenerationKeys] = [:]
        /// Which rows may still be in the clear, or sealed as earlier versions did; nil: none.
        var earlier: EarlierRows?
        /// Why nothing may be read or written; nil where the keys are there.
        var refusal: StoreError?
    }

    private let state: Mutex<State>
    private let stateChanges = Atomic(0)
    private let opened = Mutex(OpenedContents())
    private let labels = Mutex(OpenedLabels())

    init(_ state: State = State()) { self.state = Mutex(state) }

    /// Why nothing may be read or written; nil where the keys are there.
    var refusal: StoreError? { state.withLock(\.refusal) }

    /// By which generation new rows are sealed; 0: not at all.
    var current: UInt64 { state.withLock(\.current) }

    /// The generations rows may be of, newest first.
    var inUse: [UInt64] { state.withLock(\.inUse) }

    /// Grows with each change of which keys there are, and of what may be under them.
    var changes: Int { stateChanges.load(ordering: .sequentiallyConsistent) }

    func set(_ state: State) {
        self.state.withLock { $0 = state }
        stateChanges.add(1, ordering: .sequentiallyConsistent)
        forgetOpened()
    }

    /// Whether a row may be in the clear, or sealed as earlier versions did.
    func mayBeEarlier(_ place: SealedPlace) -> Bool { state.withLock { $0.earlier?.holds(place) ?? false } }

    /// Notes that no row is under another key than the current one any more.
    ///
    /// The others stay known until ``forgetRetired()``: a reader that began before that commit still sees rows under
    /// them.
    func retireOthers() {
        state.withLock { state in state.inUse = [state.current] }
        stateChanges.add(1, ordering: .sequentiallyConsistent)
    }

    /// Whether keys are known that no row is under any more.
    var hasRetired: Bool { state.withLock { state in state.keys.keys.contains { !state.inUse.contains($0) } } }

    /// Forgets the keys that no row is under, once no reader sees an older commit; from then on no row may be in the clear
    /// where content is sealed.
    func forgetRetired() {
        state.withLock { state in
            state.keys = state.keys.filter { state.inUse.contains($0.key) }
            if state.inUse == [state.current] { state.earlier = state.current == 0 ? .all : nil }
        }
        stateChanges.add(1, ordering: .sequentiallyConsistent)
        labels.withLock { $0 = OpenedLabels() }
    }

    /// - Throws: the ``StoreError`` that says which key is missing.
    func requireKeys() throws { if let refusal { throw refusal } }

    // MARK: Contents

    /// What was opened for pages lately.
    var knownContents: OpenedContents { opened.withLock(\.self) }

    /// The devices' labels that were opened lately.
    var knownLabels: OpenedLabels { labels.withLock(\.self) }

    func keep(_ contents: [OpenedContent], of keys: [Int64]) {
        if opened.withLock({ $0.keep(contents, of: keys) }) { watch() }
    }

    func forgetOpened() {
        opened.withLock { $0 = OpenedContents() }
        labels.withLock { $0 = OpenedLabels() }
    }

    private func watch() {
        DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + OpenedContents.patience) { [weak self] in
            guard let self, opened.withLock({ $0.forgetUnused() }) else { return }
            watch()
        }
    }

    func seal(
        _ octets: [UInt8], at place: SealedPlace, with columns: some BoundColumns = NoColumns()
    ) throws -> [UInt8] {
        let keys = try state.withLock { state in
            if let refusal = state.refusal { throw refusal }
            return state.keys[state.current]
        }
        guard let keys else { return [0] + octets }
        let sealed = try place.withOctets(and: columns) {
            try AES.GCM.seal(octets, using: keys.seal, nonce: AES.GCM.Nonce(), authenticating: $0)
        }
        var writer = ContentWriter()
        writer.put(keys.generation)
        var blob = writer.octets
        blob.reserveCapacity(blob.count + 28 + octets.count)
        sealed.nonce.withUnsafeBytes { blob.append(contentsOf: $0) }
        blob.append(contentsOf: sealed.ciphertext)
        blob.append(contentsOf: sealed.tag)
        return blob
    }

    func open(
        _ blob: [UInt8], at place: SealedPlace, with columns: some BoundColumns = NoColumns()
    ) throws -> [UInt8] {
        try blob.withUnsafeBytes { try open($0, at: place, with: columns).octets }
    }

    /// The bytes of a blob, and whether they were sealed.
    ///
    /// - Throws: ``StoreError/corrupt(detail:)`` if the seal does not hold, its key is unknown, or the row has to be sealed
    ///   and is not; or the reason why the keys are missing.
    func open(
        _ blob: UnsafeRawBufferPointer, at place: SealedPlace, with columns: some BoundColumns = NoColumns()
    ) throws -> (octets: [UInt8], wasSealed: Bool) {
        var (generation, start) = (UInt64(blob.first ?? 0), min(1, blob.count))
        if generation >= 0x80 || blob.isEmpty {
            var reader = ContentReader(Array(blob.prefix(10)))
            generation = try reader.number()
            start = reader.position
        }
        let rest = UnsafeRawBufferPointer(rebasing: blob[start...])
        guard generation > 0 else {
            guard mayBeEarlier(place) else { throw StoreError.corrupt(detail: "\(place) is not sealed") }
            return (Array(rest), false)
        }
        var broken: StoreError { .corrupt(detail: "the seal of \(place) does not hold") }
        let keys = try keys(of: generation)
        guard keys.bindsColumns || mayBeEarlier(place) else { throw broken }
        let opened =
            if keys.bindsColumns {
                try place.withOctets(and: columns) { try keys.opener.open(rest, authenticating: $0) }
            } else {
                try place.withOctets(and: NoColumns()) { try keys.opener.open(rest, authenticating: $0) }
            }
        guard let opened else { throw broken }
        return (opened, true)
    }

    /// The keys of a generation.
    ///
    /// - Throws: why they are not there.
    func keys(of generation: UInt64) throws -> GenerationKeys {
        try state.withLock { state in
            guard let keys = state.keys[generation] else {
                throw state.refusal ?? StoreError.corrupt(detail: "a row is sealed under the unknown key \(generation)")
            }
            return keys
        }
    }

    /// What a destination said of a reading, sealed for its row.
    func seal(_ words: String, on reading: Int64, at destination: Int64) throws -> Data {
        Data(try seal(Array(words.utf8), at: .words(reading, at: destination)))
    }

    /// What a destination said of a reading; nothing where the row has none.
    func words(_ blob: [UInt8], on reading: Int64, at destination: Int64) throws -> String {
        try blob.isEmpty ? "" : String(decoding: open(blob, at: .words(reading, at: destination)), as: UTF8.self)
    }

    func seal(_ label: DeviceLabel, of device: Int64) throws -> Data {
        Data(try seal(label.octets, at: .device(device)))
    }

    func label(_ blob: Data, of device: Int64) throws -> DeviceLabel {
        try blob.withUnsafeBytes { try label($0, of: device) }
    }

    func label(_ blob: UnsafeRawBufferPointer, of device: Int64) throws -> DeviceLabel {
        try requireKeys()
        if let known = labels.withLock({ $0.label(of: device, blob) }) { return known }
        let (octets, wasSealed) = try open(blob, at: .device(device))
        let label = try DeviceLabel(octets: octets)
        if wasSealed, labels.withLock({ $0.keep(label, of: device, blob) }) {
            DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + OpenedContents.patience) { [weak self] in
                self?.labels.withLock { $0 = OpenedLabels() }
            }
        }
        return label
    }

    /// The generation a blob is of.
    static func generation(of blob: [UInt8]) throws -> UInt64 {
        var reader = ContentReader(blob)
        return try reader.number()
    }

    // MARK: What rows are found by

    /// What a reading's id stands as in new rows.
    func stored(_ id: ReadingID) throws -> ReadingID { Self.stored(id, try currentKeys()) }

    /// What a reading's id may stand as, the likeliest first.
    func candidates(for id: ReadingID) throws -> [ReadingID] {
        // One key may be of two generations.
        try inUseKeys().map { Self.stored(id, $0) }.reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
    }

    /// What the octets of a frame that belongs to no reading are found by in new rows.
    func stored(_ payload: [UInt8]) throws -> [UInt8] { try currentKeys()?.digest(payload) ?? payload }

    /// What the octets of a frame may be found by, the likeliest first.
    func candidates(for payload: [UInt8]) throws -> [[UInt8]] {
        try inUseKeys().map { $0?.digest(payload) ?? payload }
    }

    /// The keys new rows are sealed under; nil: they are in the clear.
    func currentKeys() throws -> GenerationKeys? {
        try state.withLock { state in
            if let refusal = state.refusal { throw refusal }
            return state.keys[state.current]
        }
    }

    private func inUseKeys() throws -> [GenerationKeys?] {
        try state.withLock { state in
            if let refusal = state.refusal { throw refusal }
            return state.inUse.map { state.keys[$0] }
        }
    }

    private static func stored(_ id: ReadingID, _ keys: GenerationKeys?) -> ReadingID {
        guard let keys else { return id }
        return ReadingID(octets: keys.digest(id.octets)[...])
    }
}

extension SealedPlace: CustomStringConvertible {
    var description: String {
        switch self {
        case .frame(let row): "frame \(row)"
        case .reading(let row): "reading \(row)"
        case .words(let row, _): "the server's words on reading \(row)"
        case .device(let row): "device \(row)"
        case .retraction(let row): "retraction \(row)"
        case .pruneKey: "the key of pruned readings"
        }
    }
}
