import GATTClient
import HealthReadings

/// What the gateway and a device said to each other in one contact, by the attribute protocol.
///
/// No key is ever part of it: the link's encryption and the bond are below the attribute protocol.
public struct Exchange: Sendable, Hashable {
    /// What became of something that was asked for.
    public enum Outcome: Sendable, Hashable {
        /// The device did it, and said this; empty if it had nothing to say.
        case done([UInt8])
        /// The device refused, with an ATT error code.
        case refused(UInt8)
        /// It could not be done for another reason.
        case failed
    }

    /// What one side did.
    public enum Action: Sendable, Hashable {
        /// The gateway read a value.
        case read(UInt16, Outcome)
        /// The gateway wrote a value, and waited for the device's response or not.
        case write(UInt16, [UInt8], expectsResponse: Bool, Outcome)
        /// The gateway enabled notifications or indications.
        case enable(UInt16, Outcome)
        /// The gateway disabled them.
        case disable(UInt16)
        /// The device sent a value unasked.
        case value(UInt16, [UInt8])
        /// The link ended.
        case disconnect(byDevice: Bool)
    }

    /// A step of the contact.
    public struct Step: Sendable, Hashable {
        /// When, in milliseconds from ``Exchange/start``.
        public var milliseconds: Int64
        /// What was done.
        public var action: Action

        /// Creates a step.
        public init(_ milliseconds: Int64, _ action: Action) {
            self.milliseconds = milliseconds
            self.action = action
        }
    }

    /// What the device advertised.
    public var advertisement: Advertisement
    /// The second in which it was connected.
    public var start: Instant
    /// How long the connection took, in milliseconds; `nil` if nobody measured it.
    public var connectMilliseconds: Int64?
    /// How long the characteristics took to be listed, in milliseconds; `nil` if nobody measured it.
    public var discoveryMilliseconds: Int64?
    /// Its characteristics, by their handles.
    public var characteristics: [Characteristic] = []
    /// What was said, in order.
    public var steps: [Step] = []

    /// Creates an exchange in which nothing was said yet.
    public init(_ advertisement: Advertisement, start: Instant) {
        self.advertisement = advertisement
        self.start = start
    }

    /// The characteristic whose value has this handle.
    public func characteristic(_ handle: UInt16) -> Characteristic? {
        characteristics.first { $0.valueHandle == handle }
    }

    /// The octets of each step that has any, with the handle of their characteristic.
    var values: [(handle: UInt16, octets: [UInt8])] {
        steps.compactMap { step in step.action.octets.map { (step.action.handle ?? 0, $0) } }
    }
}

extension Exchange.Action {
    /// The handle of the characteristic's value; `nil` for the link itself.
    public var handle: UInt16? {
        switch self {
        case .read(let handle, _), .write(let handle, _, _, _), .enable(let handle, _), .disable(let handle),
            .value(let handle, _):
            handle
        case .disconnect: nil
        }
    }

    /// The octets that were read, written or sent; `nil` if there were none.
    public var octets: [UInt8]? {
        switch self {
        case .read(_, .done(let octets)), .write(_, let octets, _, _), .value(_, let octets): octets
        case .read, .enable, .disable, .disconnect: nil
        }
    }

    /// The same with other octets.
    func replacing(_ octets: [UInt8]) -> Exchange.Action {
        switch self {
        case .read(let handle, .done): .read(handle, .done(octets))
        case .write(let handle, _, let expectsResponse, let outcome):
            .write(handle, octets, expectsResponse: expectsResponse, outcome)
        case .value(let handle, _): .value(handle, octets)
        case .read, .enable, .disable, .disconnect: self
        }
    }
}
