import CryptoBoringWrapper
import Foundation

/// Opens rows one after the other, each key made ready once.
///
/// `AES.GCM.open` expands its key and allocates a context for each box, and a box is made of copies: for the fifty octets of
/// a reading that is four times the work of opening them. So this asks the module below it in swift-crypto, which is the
/// same BoringSSL; the package's version is pinned. Belongs to one connection's turn.
final class RowOpener {
    private let sealing: Sealing
    // One turn's only: nothing else can be in the middle of it.
    @exclusivity(unchecked)
    private var last: (generation: UInt64, context: BoringSSLAEAD.AEADContext, bindsColumns: Bool)?

    init(_ sealing: Sealing) { self.sealing = sealing }

    /// The octets of a blob, and whether they were sealed.
    ///
    /// - Throws: ``StoreError/corrupt(detail:)`` where the seal does not hold, its key is unknown, or the row is not sealed
    ///   and has to be; or why keys are missing.
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
            guard sealing.mayBeEarlier(place) else { throw StoreError.corrupt(detail: "\(place) is not sealed") }
            return (Array(rest), false)
        }
        let (context, bindsColumns) = try context(of: generation)
        guard bindsColumns || sealing.mayBeEarlier(place) else { throw Self.broken(place) }
        let nonceCount = 12
        guard rest.count >= nonceCount + 16, let address = rest.baseAddress else { throw Self.broken(place) }
        // Nothing is copied: the blob outlives the call.
        let box = Data(
            bytesNoCopy: UnsafeMutableRawPointer(mutating: address + nonceCount), count: rest.count - nonceCount,
            deallocator: .none)
        let nonce = UnsafeRawBufferPointer(rebasing: rest.prefix(nonceCount))
        do {
            let opened =
                if bindsColumns {
                    try place.withOctets(and: columns) { bound in
                        try context.open(combinedCiphertextAndTag: box, nonce: nonce, authenticatedData: bound)
                    }
                } else {
                    try place.withOctets(and: NoColumns()) { bound in
                        try context.open(combinedCiphertextAndTag: box, nonce: nonce, authenticatedData: bound)
                    }
                }
            return (opened.withUnsafeBytes { Array($0) }, true)
        } catch {
            throw Self.broken(place)
        }
    }

    private func context(of generation: UInt64) throws -> (context: BoringSSLAEAD.AEADContext, bindsColumns: Bool) {
        if let last, last.generation == generation { return (last.context, last.bindsColumns) }
        let keys = try sealing.keys(of: generation)
        let context = try BoringSSLAEAD.AEADContext(cipher: .aes256gcm, key: keys.seal)
        last = (generation, context, keys.bindsColumns)
        return (context, keys.bindsColumns)
    }

    private static func broken(_ place: SealedPlace) -> StoreError {
        .corrupt(detail: "the seal of \(place) does not hold")
    }
}
