import CloudSources
import FreeStyleLibre
import HealthDevices
import HealthReadings

/// Decodes every kind of frame the gateway keeps: what meters send, by their models, and scans of sensors. Pure.
public struct GatewayFrameDecoder: FrameDecoding {
    private let meters = ModelFrameDecoder()

    /// Makes a decoder.
    public init() {}

    /// Whether the model's readable clock shows base time.
    public func clockShowsBaseTime(model: String?) -> Bool { meters.clockShowsBaseTime(model: model) }

    /// Whether the model's contexts may say that their records are none of the kind they look like.
    public func contextsDecide(model: String?) -> Bool { meters.contextsDecide(model: model) }

    /// Whether the record's context may say that it is none of the kind it looks like.
    public func awaitsContext(_ frame: Frame, model: String?) -> Bool { meters.awaitsContext(frame, model: model) }

    /// The number by which a record and its context find each other in one contact only.
    public func passingNumber(of frame: Frame, model: String?) -> UInt16? {
        meters.passingNumber(of: frame, model: model)
    }

    /// What of a frame's octets stays from one contact to the next.
    public func lastingOctets(of frame: Frame, model: String?) -> [UInt8] {
        meters.lastingOctets(of: frame, model: model)
    }

    /// Whether a record may come by the model's own protocol and by the standard one.
    public func comesByTwoProtocols(model: String?) -> Bool { meters.comesByTwoProtocols(model: model) }

    /// Whether a frame is a record at an address, which each model means otherwise.
    public func isPlacedByModel(_ frame: Frame) -> Bool { meters.isPlacedByModel(frame) }

    /// The rules, beyond the octets' own, by which records of the model are excluded.
    public func rules(model: String?) -> String { meters.rules(model: model) }

    /// A sample out of another program's data, excluded if nobody can have its value.
    public func judged(_ sample: ImportedSample) -> ImportedSample { meters.judged(sample) }

    /// Decodes one frame.
    public func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        if frame.format == .cloudRecord {
            guard case .imported(let sample) = DecodedFrame(cloudRecord: frame.payload) else {
                return DecodedFrame(cloudRecord: frame.payload)
            }
            return .imported(judged(sample))
        }
        guard frame.format == .libre1Scan else { return meters.decode(frame, model: model) }
        do throws(MalformedFrame) {
            let scan = try LibreScan(payload: frame.payload)
            if let sensor = scan.sensorScan { return .sensor(sensor) }
            throw scan.fault
        } catch {
            return .malformed(error)
        }
    }
}

extension LibreScan {
    /// Why nothing can be said of any record.
    fileprivate var fault: MalformedFrame {
        if let foreignSensor {
            return MalformedFrame(
                subject: "FreeStyle Libre 1 scan", expected: "the patch information of a FreeStyle Libre 1", octet: 9,
                found: foreignSensor.model.title)
        }
        let body = LibreMemory.Part.body.octets
        let start = payload.count - LibreMemory.size + body.lowerBound
        let stored = UInt16(memory.octets[body.lowerBound]) | UInt16(memory.octets[body.lowerBound + 1]) << 8
        return MalformedFrame(
            subject: "FreeStyle Libre 1 memory", expected: "the body's CRC", octet: start,
            found: String(stored, radix: 16, uppercase: true) + ", which is another")
    }
}
