import FreeStyleLibre
import HealthReadings
import ISO15693Reader

/// Reads the memory of a FreeStyle Libre 1 through a reader of ISO 15693 tags. Nothing is decoded: what comes out is
/// stored first.
///
/// ```swift
/// let scan = try await Libre1Reader(transport).read { print("\($0.blocksRead) of \($0.blocks)") }
/// ```
public struct Libre1Reader: Sendable {
    /// How far a reading is.
    public struct Progress: Sendable, Hashable {
        /// The blocks that have been read.
        public let blocksRead: Int
        /// All blocks.
        public let blocks: Int
        /// How many times the memory has been begun: more than 1 where a CRC was wrong.
        public let round: Int
    }

    /// The most blocks a sensor answers at a time.
    static let blocksPerRequest = 3
    /// How often a request is tried in all.
    static let tries = 4
    /// How often the memory is read in all, while a CRC is wrong: a sensor may write a record while it is read.
    static let rounds = 4

    private let transport: any ISO15693Transport

    /// Makes a reader. The transport stays the caller's: it is not closed here.
    public init(_ transport: any ISO15693Transport) { self.transport = transport }

    /// Reads the sensor that is at the reader now.
    ///
    /// A sensor of another model is refused before its memory is read. Failed exchanges are tried again a few times, and
    /// blocks one by one where three at a time fail. A memory of which a CRC is wrong is read again, up to three times,
    /// and the best is returned with its verdict. At the end the same sensor must still be there.
    /// - Parameter progress: called after each exchange that gave blocks.
    /// - Throws: ``LibreReadError``; `ISO15693Error.noTag` in it where no sensor is there.
    public func read(
        progress: @Sendable (Progress) -> Void = { _ in }
    ) async throws(LibreReadError) -> LibreScan {
        let uid = try await inventory(isFirst: true)
        let patchInformation = try await askPatchInformation(of: uid)
        var blocksAtOnce = Self.blocksPerRequest
        var best: LibreMemory?
        for round in 1...Self.rounds {
            let memory = try await readMemory(blocksAtOnce: &blocksAtOnce) { blocks in
                progress(Progress(blocksRead: blocks, blocks: LibreMemory.blockCount, round: round))
            }
            if memory.worth > best?.worth ?? -1 { best = memory }
            if memory.isWhole { break }
        }
        let last = try await inventory(isFirst: false)
        guard last == uid else { throw .sensorSwapped(first: uid, last: last) }
        guard let best, patchInformation != nil || best.worth > 0 else { throw .unknownModel(uid) }
        return LibreScan(uid: uid, patchInformation: patchInformation ?? PatchInformation([]), memory: best)
    }

    private func inventory(isFirst: Bool) async throws(LibreReadError) -> SensorUID {
        let answer = try await ask(.inventory, isFirst: isFirst) { $0.count == 9 }
        do {
            return try SensorUID(onAir: answer.dropFirst())
        } catch {
            throw .exchange(.malformedAnswer(error.description), block: nil)
        }
    }

    /// What the sensor tells of its model; nil where the reader cannot ask.
    private func askPatchInformation(of uid: SensorUID) async throws(LibreReadError) -> PatchInformation? {
        let isAbbotts = uid.maker == SensorUID.abbott
        let octets: [UInt8]
        do {
            octets = try await ask(isAbbotts ? .abbottPatchInformation : .patchInformation)
        } catch .exchange(let error, _) where isAbbotts && error.isOfTheRequest {
            // The first Libre has a chip of Texas Instruments: this is a newer sensor, whatever its name.
            octets = []
        } catch .exchange(.readerCannotAsk, _) {
            return nil
        } catch .exchange(.tag, _) {
            throw .notASensor(uid)
        } catch .exchange(.tagSilent, _) where uid.maker != SensorUID.texasInstruments {
            throw .notASensor(uid)
        } catch {
            throw error
        }
        let patchInformation = PatchInformation(octets)
        if let foreign = ForeignSensor(patchInformation) { throw .foreignSensor(foreign) }
        return patchInformation
    }

    private func readMemory(
        blocksAtOnce: inout Int, progress: (Int) -> Void
    ) async throws(LibreReadError) -> LibreMemory {
        var octets: [UInt8] = []
        octets.reserveCapacity(LibreMemory.size)
        var next = 0
        // Blocks before this one are read one by one, because together they failed.
        var singlesUntil = 0
        while next < LibreMemory.blockCount {
            let isSingle = blocksAtOnce == 1 || next < singlesUntil
            let count = isSingle ? 1 : min(blocksAtOnce, LibreMemory.blockCount - next)
            let first = UInt8(next)
            let request: ISO15693Request =
                isSingle ? .readSingleBlock(first) : .readMultipleBlocks(first: first, count: UInt8(count))
            do {
                octets += try await ask(request, block: first) { $0.count == count * LibreMemory.blockSize }
            } catch .exchange(let error, _) where !isSingle && error.isOfTheRequest {
                // A tag or reader that refuses to read several will refuse it again.
                switch error {
                case .tag, .readerCannotAsk: blocksAtOnce = 1
                default: singlesUntil = next + count
                }
                continue
            } catch {
                throw error
            }
            next += count
            progress(next)
        }
        do {
            return try LibreMemory(octets)
        } catch {
            throw .exchange(.malformedAnswer(error.description), block: nil)
        }
    }

    /// Asks until there is an answer of the right form, a few times.
    private func ask(
        _ request: ISO15693Request, block: UInt8? = nil, isFirst: Bool = false,
        isRight: ([UInt8]) -> Bool = { _ in true }
    ) async throws(LibreReadError) -> [UInt8] {
        var failure = ISO15693Error.tagSilent
        for _ in 0..<Self.tries {
            guard !Task.isCancelled else { throw .exchange(.cancelled, block: block) }
            do {
                let answer = try await transport.exchange(request)
                if isRight(answer) { return answer }
                failure = .malformedAnswer("an answer of \(answer.count) octets to \(request)")
            } catch {
                failure = error
                // A field that was weak for a moment looks as if the sensor had left; before anything was read, it is not here.
                let isGone = error == .tagLeft || error == .noTag
                guard error.mayPass || isGone && !isFirst else { break }
            }
        }
        throw .exchange(failure == .noTag && !isFirst ? .tagLeft : failure, block: block)
    }
}

extension ISO15693Error {
    /// Whether a smaller request may be answered where this one was not.
    fileprivate var isOfTheRequest: Bool {
        switch self {
        case .tag, .tagSilent, .badCRC, .malformedAnswer, .readerCannotAsk, .reader: true
        default: false
        }
    }
}

extension SensorUID {
    fileprivate static let texasInstruments: UInt8 = 0x07
    fileprivate static let abbott: UInt8 = 0x7A

    /// The maker of the tag's chip (ISO/IEC 7816-6).
    fileprivate var maker: UInt8 { UInt8(truncatingIfNeeded: bits >> 48) }
}

extension LibreMemory {
    /// Whether all three CRCs are right.
    fileprivate var isWhole: Bool { isHeaderRight && isBodyRight && isFooterRight }

    /// How much of the memory is to be believed: the body above all.
    fileprivate var worth: Int { (isBodyRight ? 4 : 0) + (isHeaderRight ? 1 : 0) + (isFooterRight ? 1 : 0) }
}
