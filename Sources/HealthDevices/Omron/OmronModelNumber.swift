import GATTClient
import GATTProfiles
import HealthReadings

/// The HEM number by which a monitor calls itself in its device information (2A24): `HEM-7361T-D`.
///
/// Many monitors give only the name that they are sold under, which several models share: that says nothing here.
struct OmronModelNumber: Sendable, Hashable, CustomStringConvertible {
    static let characteristic = BluetoothUUID(DeviceInformationString.Kind.modelNumber.rawValue)

    /// The number without `HEM-`, in capitals.
    private let number: String

    /// - Returns: `nil` where the text names no HEM number.
    init?(_ octets: [UInt8]) {
        let text = DeviceInformationString(decoding: octets).text.uppercased().replacing("_", with: "-")
        guard let mark = text.firstRange(of: "HEM") else { return nil }
        let rest = text[mark.upperBound...].drop { $0 == "-" || $0 == " " }
        let number = rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
        guard number.prefix(3).count == 3, number.prefix(3).allSatisfy(\.isNumber), number.count <= 24 else {
            return nil
        }
        self.number = String(number)
    }

    /// `HEM-7361T-D`.
    var description: String { "HEM-\(number)" }

    /// Asks a connected monitor.
    ///
    /// - Returns: `nil` where it says nothing of the kind, or refuses.
    /// - Throws: ``GATTError/disconnected``, and what says more than that this value cannot be had.
    static func read(from peripheral: any Peripheral, _ characteristics: [Characteristic]) async throws -> Self? {
        guard let characteristic = characteristics.first(where: { $0.uuid == Self.characteristic }) else { return nil }
        do {
            return Self(try await peripheral.read(characteristic).octets)
        } catch let error as GATTError where error != .disconnected {
            return nil
        } catch RadioError.other {
            return nil
        }
    }

    /// How many characters of the number a catalogue's number names: `7361T` names five of `7361T-D`. A number with a suffix that
    /// no row has, such as `7155T-EBK`, may be of each generation of its base: `7155T-K4` names five of it, too.
    private func match(_ known: String) -> Int? {
        if number == known || number.hasPrefix(known + "-") { return known.count }
        let base = known.prefix { $0 != "-" }
        return base.count < known.count && number.hasPrefix(base + "-") ? base.count : nil
    }

    /// The models that the number names best; none where no model has it.
    private func models(in catalogue: Catalogue) -> [DeviceModel] {
        let matches = catalogue.models.compactMap { model in
            model.hemNumbers.compactMap(match).max().map { (model: model, length: $0) }
        }
        let longest = matches.map(\.length).max()
        return matches.filter { $0.length == longest }.map(\.model)
    }

    /// What is wrong where the number is another model's than the one that the monitor was paired as; `nil` if it may be that model.
    ///
    /// A number that no model has proves nothing: Omron sells one layout under many numbers. A person has chosen the model, and the
    /// sums of its records have to hold.
    func refusal(of model: DeviceModel, in catalogue: Catalogue = Catalogue()) -> TransferError? {
        let named = models(in: catalogue)
        // A monitor may leave out what its label has behind the number.
        if named.isEmpty || model.hemNumbers.contains(where: { $0.hasPrefix(number) })
            || named.contains(where: { $0.id == model.id })
        {
            return nil
        }
        let names = named.map(\.id).joined(separator: " or ")
        return .refused(
            code: "omron_wrong_model",
            description: "the monitor says that it is \(self) (\(names)), and is paired as \(model.id), \(model.name); "
                + "nothing is read")
    }
}

extension DeviceModel {
    /// The HEM numbers of an Omron monitor that is read by its memory: `7322T`, `7321T`, …
    var hemNumbers: [String] {
        guard omronMemory != nil else { return [] }
        let numbers = name.replacing("HEM-", with: "").split(separator: " (", maxSplits: 1).first ?? ""
        return numbers.split(separator: ", ").map { $0.uppercased() }
    }
}
