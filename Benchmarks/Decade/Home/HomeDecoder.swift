import FreeStyleLibre
import HealthDevices
import HealthReadings

/// Decodes what the home's devices send, as the gateway does: a store that is filled with it isn't judged again when the
/// gateway opens it.
public struct HomeDecoder: FrameDecoding {
    private let meters = ModelFrameDecoder()

    /// Makes a decoder.
    public init() {}

    /// Whether the model's readable clock shows base time.
    public func clockShowsBaseTime(model: String?) -> Bool { meters.clockShowsBaseTime(model: model) }
    /// Whether a context may say that its record is of another kind.
    public func contextsDecide(model: String?) -> Bool { meters.contextsDecide(model: model) }
    /// Whether a record waits for its context.
    public func awaitsContext(_ frame: Frame, model: String?) -> Bool { meters.awaitsContext(frame, model: model) }
    /// The number that holds in one contact only.
    public func passingNumber(of frame: Frame, model: String?) -> UInt16? {
        meters.passingNumber(of: frame, model: model)
    }
    /// The octets that stay from one contact to the next.
    public func lastingOctets(of frame: Frame, model: String?) -> [UInt8] {
        meters.lastingOctets(of: frame, model: model)
    }
    /// Whether a record may come by two protocols.
    public func comesByTwoProtocols(model: String?) -> Bool { meters.comesByTwoProtocols(model: model) }
    /// Whether the model decides what an address means.
    public func isPlacedByModel(_ frame: Frame) -> Bool { meters.isPlacedByModel(frame) }
    /// What the model can measure.
    public func rules(model: String?) -> String { meters.rules(model: model) }
    /// A sample of another program, excluded if its value is implausible.
    public func judged(_ sample: ImportedSample) -> ImportedSample { meters.judged(sample) }

    /// Decodes one frame.
    public func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        guard frame.format == .libre1Scan else { return meters.decode(frame, model: model) }
        do throws(MalformedFrame) {
            return try LibreScan(payload: frame.payload).sensorScan.map(DecodedFrame.sensor) ?? .nothing
        } catch {
            return .malformed(error)
        }
    }
}
