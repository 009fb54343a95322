import HealthReadings

/// What a sensor tells about itself before its memory is read: six octets, of newer sensors 24.
public struct PatchInformation: Sendable, Hashable {
    /// As sent, without the answer's flags; empty where the reader could not ask.
    public let octets: [UInt8]

    /// Takes the octets as they were sent.
    public init(_ octets: [UInt8]) { self.octets = octets }

    /// The octets in hexadecimal: `DF0000010102`.
    public var text: String { octets.hexadecimal(uppercase: true) }

    /// The digit that a serial number begins with; nil where these octets do not hold it.
    public var family: UInt8? { octets.count >= 6 && octets.count < 24 ? octets[2] >> 4 : nil }

    /// The model.
    public var model: SensorModel {
        // A Libre 3 sends 24, with filling octets (A5) and a zero before them, and a CRC after them.
        guard octets.count < 24 else { return .libre3 }
        guard octets.count >= 6 else { return .unknown }
        let generation = octets[2] & 0x0F
        switch octets[0] {
        case 0xDF, 0xA2: return .libre1
        case 0xE5, 0xE6: return .libreUS14Day
        case 0x70: return .librePro
        case 0x9D, 0xC5, 0x76: return .libre2
        case 0xC6, 0x2C: return .libre2Plus
        case 0x7F: return generation == 0x1 ? .libre2Plus : .libre2
        case 0x2B: return generation == 0xA ? .libre2Plus : .libre2
        default: return .unknown
        }
    }
}

/// The models of FreeStyle Libre sensors. Only ``libre1`` is read: the others keep their memory encrypted or otherwise.
///
/// Numbers: gui-dos/DiaBLE.
public enum SensorModel: String, Sendable, Hashable, CaseIterable {
    case libre1
    case libreUS14Day = "libre_us_14_day"
    case librePro = "libre_pro"
    case libre2
    case libre2Plus = "libre2_plus"
    case libre3
    /// None of the known.
    case unknown

    /// The name on the box.
    public var title: String {
        switch self {
        case .libre1: "FreeStyle Libre"
        case .libreUS14Day: "FreeStyle Libre 14 day (US)"
        case .librePro: "FreeStyle Libre Pro or Libre H"
        case .libre2: "FreeStyle Libre 2"
        case .libre2Plus: "FreeStyle Libre 2 Plus"
        case .libre3: "FreeStyle Libre 3"
        case .unknown: "an unknown sensor"
        }
    }
}

/// A sensor that is not read, by its name.
public struct ForeignSensor: Error, Sendable, Hashable, CustomStringConvertible {
    /// Its model.
    public let model: SensorModel
    /// What it told.
    public let patchInformation: PatchInformation

    /// Whether a sensor that told this must not be read; nil for a FreeStyle Libre 1.
    public init?(_ patchInformation: PatchInformation) {
        guard patchInformation.model != .libre1 else { return nil }
        (model, self.patchInformation) = (patchInformation.model, patchInformation)
    }

    /// One line for people.
    public var description: String {
        let reason =
            switch model {
            case .libreUS14Day, .libre2, .libre2Plus: "its memory is encrypted"
            case .librePro: "its memory has another layout"
            case .libre3: "it is read over Bluetooth by its own application"
            case .libre1, .unknown: "its patch information begins neither with DF nor with A2"
            }
        let octets = patchInformation.octets.isEmpty ? "none" : patchInformation.text
        return "this is \(model == .unknown ? "" : "a ")\(model.title) (patch information \(octets)): \(reason); "
            + "only the first FreeStyle Libre is read"
    }
}
