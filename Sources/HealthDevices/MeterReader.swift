import GATTClient
import GATTProfiles
import HealthReadings
import Logging

/// Reads a meter, live or replayed: the one way frames come from a peripheral.
///
/// A contact is: connect, ask the device who it is and what its clock shows, remember that, take its records, stop
/// notifications, disconnect. Whatever came before an error is durable.
public struct MeterReader: Sendable {
    /// What a device's clock is to show now; nil where it is to be left alone.
    public typealias ClockToWrite = @Sendable (DeviceDescription) async -> WallTime?

    let journal: any FrameJournal
    let memory: any DeviceMemory
    private let pairings: (any PairingMemory)?
    private let secrets: (any DeviceSecrets)?
    private let known = KnownMemories()
    let catalogue: Catalogue
    private let provider: @Sendable (DeviceModel) -> String
    private let model: String?
    /// How live values are recorded; `nil`: not at all.
    var recordingOptions: RecordingOptions?
    private let clockToWrite: ClockToWrite
    private let logger: Logger

    /// Makes a reader.
    ///
    /// - Parameters:
    ///   - journal: where frames become durable.
    ///   - memory: what is remembered of devices between contacts.
    ///   - catalogue: the models that are known.
    ///   - provider: the server's provider slug for a model; the catalogue's where not given.
    ///   - model: the catalogue id to read every device as; found from the advertisement where nil.
    ///   - pairings: what is remembered of bonds: a contact proves one, or finds it lost.
    ///   - secrets: what devices were given to know this gateway by. Without it, as in a replay, a device that wants a
    ///     secret is asked without one.
    ///   - clockToWrite: what to write into the clock of a device that wants that at each connection
    ///     (``Quirk/wantsDateTime``). No clock is written where it is not given, or gives nil.
    ///   - logger: gets how contacts end.
    public init(
        journal: any FrameJournal, memory: any DeviceMemory, catalogue: Catalogue = Catalogue(),
        provider: @escaping @Sendable (DeviceModel) -> String = { $0.provider }, model: String? = nil,
        pairings: (any PairingMemory)? = nil, secrets: (any DeviceSecrets)? = nil,
        clockToWrite: @escaping ClockToWrite = { _ in nil },
        logger: Logger = Logger(label: "healthrelay.reader")
    ) {
        self.journal = journal
        self.memory = memory
        self.pairings = pairings
        self.secrets = secrets
        self.clockToWrite = clockToWrite
        self.catalogue = catalogue
        self.provider = provider
        self.model = model
        self.logger = logger
    }

    /// Reads what is new on a peripheral.
    ///
    /// Cancelling the task ends the transfer after what has come: it is kept, notifications are stopped, and the device
    /// is disconnected, before this throws.
    ///
    /// - Parameters:
    ///   - peripheral: the device, live or replayed. Nobody else may use it meanwhile.
    ///   - allRecords: asks a glucose meter for all its records, also those that were read before. Other devices send
    ///     what they choose.
    ///   - report: told what happens, in order; the transfer goes on when it returns.
    /// - Returns: how the contact ended. A partial transfer is not an error here but in the summary: what came is kept.
    /// - Throws: what went wrong before the contact could begin, a failure of the journal or the memory, `RadioError`
    ///   (`RadioError.forgottenByDevice(_:)` where a bonded device wants no more of its bond),
    ///   ``ContactFailure/barred(_:)``, and
    ///   `CancellationError`.
    @discardableResult
    public func read(
        _ peripheral: any Peripheral, allRecords: Bool = false,
        report: @escaping @Sendable (TransferEvent) async -> Void = { _ in }
    ) async throws -> ContactSummary {
        try await read(peripheral, allRecords: allRecords, until: { false }, report: report)
    }

    /// Reads what is new on a peripheral.
    ///
    /// - Parameters:
    ///   - provesBond: whether the contact shows that the bond holds. On the connection on which a device was paired it shows
    ///     nothing of that.
    ///   - isOver: asked again and again whether to leave a device that has not measured yet, or that sends what it
    ///     measures for as long as it is worn. Such a contact ends in good order.
    func read(
        _ peripheral: any Peripheral, allRecords: Bool, provesBond: Bool = true,
        until isOver: @escaping @Sendable () async -> Bool,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) async throws -> ContactSummary {
        do {
            let connectedAt = try await peripheral.connect()
            let summary = try await read(
                peripheral, connectedAt: connectedAt, allRecords: allRecords, provesBond: provesBond, isOver: isOver,
                report: report)
            await peripheral.disconnectSurely()
            return summary
        } catch {
            // Also where connecting failed: a connection that is half made holds the device.
            await peripheral.disconnectSurely()
            if case RadioError.forgottenByDevice = error { await note(.paired, peripheral.advertisement) }
            throw error
        }
    }

    private func read(
        _ peripheral: any Peripheral, connectedAt: Instant, allRecords: Bool, provesBond: Bool,
        isOver: @escaping @Sendable () async -> Bool,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) async throws -> ContactSummary {
        let characteristics = try await peripheral.characteristics()
        let facts = try await DeviceFacts(of: peripheral, characteristics)
        let device = try await describe(peripheral.advertisement, characteristics, facts)
        let saysNothing = facts.batteryPercent == 0 && catalogue.odd(device.model)?.has(.batteryReadsZero) == true
        let contact = try await memory.beginContact(
            with: device, at: connectedAt, clock: facts.clock,
            batteryPercent: saysNothing ? nil : facts.batteryPercent)
        try await leaveIfBarred(contact, peripheral.advertisement)
        await report(.began(contact))
        try await writeClockIfWanted(peripheral, characteristics, contact)

        let advertisement = peripheral.advertisement
        var course = ContactCourse(
            contact: contact, bond: advertisement.isPaired ? advertisement.address : nil,
            model: contact.device.model.flatMap { catalogue[$0] })
        await course.run(
            peripheral, characteristics, allRecords: allRecords, secret: try await secret(of: contact.device),
            known: known, journal: journal, memory: memory, isOver: isOver, report: report)
        await recordIfWanted(peripheral, characteristics, &course, report)
        do {
            let (memory, ended) = (memory, course)
            try await shieldedFromCancellation { try await memory.endContact(ended.contact, ended.summary) }
        } catch {
            // A store that takes no frames takes no summary either; the first failure is the one to tell.
            course.fail(error)
        }
        if provesBond, advertisement.isPaired, facts.hasAnswered || course.hasUsedEncryption {
            if case RadioError.forgottenByDevice? = course.failure {} else { await note(.proven, advertisement) }
        }
        noteEnd(of: course)
        await report(.ended(course.summary))
        switch course.failure {
        case nil, is TransferError, is GATTError: return course.summary
        case let failure?: throw failure
        }
    }

    /// Records what the device sends while it is connected, where that is wanted.
    private func recordIfWanted(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], _ course: inout ContactCourse,
        _ report: @escaping @Sendable (TransferEvent) async -> Void
    ) async {
        let contact = course.contact
        let stream = contact.device.model.flatMap { catalogue[$0] }?.oximeterStream
        guard let recordingOptions, course.failure == nil, stream != nil || LiveCourse.isLive(characteristics) else {
            return
        }
        let told: @Sendable (RecordingEvent) async -> Void = { event in
            if case .stored(let outcomes) = event { await report(.stored(outcomes)) }
        }
        let recorder = Recorder(
            contact: contact, journal: journal,
            window: HeartBeatWindow(seconds: recordingOptions.variabilityWindowSeconds),
            permitted: { Set(ReadingKind.allCases) }, report: told)
        course.add(await record(peripheral, characteristics, with: recorder, of: contact, told))
    }

    /// Leaves a device alone whose person was erased. Looked at when the contact has begun: one that is begun earlier is
    /// erased with its person, and takes no frames.
    func leaveIfBarred(_ contact: Contact, _ advertisement: Advertisement) async throws {
        guard let pairings, let address = advertisement.address,
            try await pairings.isBarred(address)
        else { return }
        try await memory.endContact(
            contact, ContactSummary(isComplete: false, error: ContactFailure.barredCode, received: 0))
        throw ContactFailure.barred(address)
    }

    /// Notes how the bond stands. It is known again at the next contact where it cannot be noted.
    func note(_ state: PairingState, _ advertisement: Advertisement) async {
        guard let pairings, let address = advertisement.address else { return }
        do {
            let device = DeviceDescription(address: address, name: advertisement.name)
            try await shieldedFromCancellation { try await pairings.notePairing(of: device, as: state) }
        } catch {
            logger.warning("how a bond stands could not be noted: \(error)")
        }
    }

    /// Writes date and time into a device that wants it at each connection, where its owner wants it too.
    ///
    /// What it has recorded was recorded by the clock that was read before, and is placed by that.
    private func writeClockIfWanted(
        _ peripheral: any Peripheral, _ characteristics: [Characteristic], _ contact: Contact
    ) async throws {
        guard contact.device.model.flatMap({ catalogue[$0] })?.has(.wantsDateTime) == true,
            let characteristic = characteristics.first(where: { $0.uuid == DateTime.uuid }),
            let time = await clockToWrite(contact.device)
        else { return }
        do {
            try await peripheral.write(DateTime(time).encoded, to: characteristic, expectingResponse: true)
        } catch GATTError.attribute(let code) {
            logger.notice("the device does not take its time: \(GATTError.attribute(code))")
        }
    }

    /// The secret of a device of a model that wants one.
    private func secret(of device: DeviceDescription) async throws -> DeviceSecret {
        guard let secrets, device.model.flatMap({ catalogue[$0] })?.omronMemory != nil else { return .unknown }
        guard let address = device.address, let secret = try await secrets.secret(of: address) else { return .none }
        return .known(secret)
    }

    func describe(
        _ advertisement: Advertisement, _ characteristics: [Characteristic], _ facts: DeviceFacts
    ) async throws -> DeviceDescription {
        var entry = model.flatMap { catalogue[$0] }
        if entry == nil {
            let found = catalogue.model(for: advertisement, offering: OfferedServices(characteristics))
            entry = catalogue.model(found, knownAs: try await pairings?.model(of: advertisement.address))
        }
        return DeviceDescription(
            address: advertisement.address, model: entry?.id, serial: facts.serial, name: advertisement.name,
            provider: entry.map(provider) ?? "manual")
    }

    /// What is known of a device that is not connected.
    func describe(_ advertisement: Advertisement) async throws -> DeviceDescription {
        let known = try await pairings?.model(of: advertisement.address)
        let entry = (model ?? known).flatMap { catalogue[$0] } ?? catalogue.model(for: advertisement)
        return DeviceDescription(
            address: advertisement.address, model: entry?.id, name: advertisement.name,
            provider: entry.map(provider) ?? "manual")
    }

    private func noteEnd(of course: ContactCourse) {
        let metadata: Logger.Metadata = [
            "contact": "\(course.contact.id)", "model": "\(course.contact.device.model ?? "unknown")",
            "records": "\(course.summary.received)",
        ]
        if let error = course.summary.error {
            logger.notice("contact ended early: \(error)", metadata: metadata)
        } else if course.summary.isComplete {
            logger.debug("contact ended", metadata: metadata)
        } else {
            logger.notice("records are missing; the next contact reads all again", metadata: metadata)
        }
    }
}
