import EmulatedCard
import EmulatedReader
import Foundation
import TestSupport
import Testing

@testable import ISO15693Reader

/// Through the unmodified pcscd, with a virtual reader. One service for all.
@Suite(
    .serialized,
    .enabled(if: CardService.isInstalled, "pcscd and vsmartcard-vpcd are not installed: make test-deps installs them"))
struct PCSCTests {
    private static let shared: Result<CardService, any Error> = Result {
        let service = try CardService(socket: CardService.ownSocket)
        try service.start()
        return service
    }

    private let service: CardService

    init() async throws {
        service = try Self.shared.get()
        // The last test's tag is gone when pcscd has seen it go.
        let watch = PCSCTransport()
        let isEmpty = await eventually {
            guard let readers = try? await watch.list(), !readers.isEmpty else { return false }
            return !readers.contains(where: \.hasCard)
        }
        #expect(isEmpty, "\(service.log)")
        await watch.close()
    }

    /// Puts a tag to the reader, and waits until pcscd has seen it.
    private func present(_ change: (inout EmulatedCard.Behaviour) -> Void = { _ in }) async throws -> EmulatedCard {
        var behaviour = EmulatedCard.Behaviour(.counting)
        change(&behaviour)
        var card: EmulatedCard?
        _ = await eventually {
            card = try? EmulatedCard(port: service.port, behaviour)
            return card != nil
        }
        let presented = try #require(card, "\(service.log)")
        let watch = PCSCTransport()
        #expect(await eventually { ((try? await watch.list()) ?? []).contains(where: \.hasCard) })
        await watch.close()
        return presented
    }

    private func error(
        _ reader: PCSCTransport, _ request: ISO15693Request = .inventory
    ) async -> ISO15693Error? {
        do throws(ISO15693Error) { _ = try await reader.exchange(request) } catch { return error }
        return nil
    }

    @Test("a sensor is read through a transparent session, model and all", arguments: [false, true])
    func frames(isNamed: Bool) async throws {
        let card = try await present()
        let reader = PCSCTransport(reader: isNamed ? service.reader : nil)
        #expect(try await reader.uid() == EmulatedTag.counting.uid)
        #expect(try await reader.exchange(.patchInformation) == EmulatedTag.counting.patchInformation)
        #expect(try await reader.memory() == EmulatedTag.counting.memory)
        #expect(await error(reader, .readSingleBlock(50)) == .tag(code: 0x10))
        await reader.close()
        #expect(card.commands.last == [0xFF, 0xC2, 0x00, 0x00, 0x02, 0x82, 0x00, 0x00])
        #expect(!card.commands.contains { $0[1] == 0xB0 })
    }

    @Test(
        "where a reader has no transparent session its own commands read the memory, and it says what it cannot ask",
        arguments: [false, true], [0x5E, 0xE0] as [UInt8])
    func commands(isTurnedRound: Bool, lastOctet: UInt8) async throws {
        let card = try await present {
            ($0.forwardsFrames, $0.turnsUIDRound) = (false, isTurnedRound)
            $0.tag.uid[7] = lastOctet
        }
        let reader = PCSCTransport()
        let uid = try await reader.uid()
        #expect(uid == Array(EmulatedTag.counting.uid.dropLast()) + [lastOctet])
        #expect(await error(reader, .patchInformation) == .readerCannotAsk(.patchInformation))
        #expect(await error(reader, .systemInformation) == .readerCannotAsk(.systemInformation))
        #expect(try await reader.memory() == EmulatedTag.counting.memory)
        #expect(try await reader.exchange(.readSingleBlock(42)) == Array(EmulatedTag.counting.memory[336...]))
        await reader.close()
        #expect(card.commands.contains([0xFF, 0xB0, 0x00, 0x2A, 0x08]))
    }

    @Test("a reader that can do neither says so")
    func neither() async throws {
        let card = try await present { ($0.forwardsFrames, $0.readsBlocks) = (false, false) }
        let reader = PCSCTransport()
        #expect(await error(reader, .readSingleBlock(0)) == .readerCannotAsk(.readSingleBlock(0)))
        await reader.close()
        withExtendedLifetime(card) {}
    }

    @Test("damage, a tag that does not answer a block, and one that left have their own errors")
    func faults() async throws {
        let card = try await present()
        let reader = PCSCTransport()
        #expect(await error(reader) == nil)
        card.change { $0.damagedAnswers = [1] }
        #expect(await error(reader, .readSingleBlock(0)) == .badCRC)
        card.change { ($0.damagedAnswers, $0.tag.silentBlocks) = ([], [5]) }
        #expect(await error(reader, .readSingleBlock(5)) == .tagSilent)
        card.change { $0.isSilent = true }
        #expect(await error(reader, .readSingleBlock(6)) == .tagLeft)
        card.change { $0.isSilent = false }
        #expect(await error(reader, .readSingleBlock(6)) == nil)
        card.remove()
        #expect(await eventually { await error(reader) == .noTag })
        await reader.close()
    }

    @Test("a card that is taken out in the middle has left")
    func removed() async throws {
        let card = try await present { $0.forwardsFrames = false }
        let reader = PCSCTransport()
        #expect(await error(reader) == nil)
        card.remove()
        var errors: Set<ISO15693Error> = []
        #expect(
            await eventually {
                if let error = await error(reader, .readSingleBlock(0)) { errors.insert(error) }
                return errors.contains(.noTag)
            })
        #expect(errors.contains(.tagLeft), "\(errors)")
        await reader.close()
    }

    @Test("a card of another kind is named, and no reader of that name too")
    func others() async throws {
        let card = try await present { $0.standard = 0x03 }
        let reader = PCSCTransport()
        #expect(await error(reader) == .otherTag)
        await reader.close()
        let absent = PCSCTransport(reader: "No Such Reader")
        #expect(await error(absent) == .noReader("No Such Reader"))
        await absent.close()
        withExtendedLifetime(card) {}
    }

    @Test("a tag is waited for and waited until it leaves, and a wait can be cancelled")
    func presence() async throws {
        let reader = PCSCTransport()
        #expect(await eventually { ((try? await reader.list()) ?? []).isEmpty == false })
        #expect(await error(reader) == .noTag)
        let coming = Task { try await reader.waitForTag() }
        let card = try await present()
        #expect(try await coming.value == EmulatedTag.counting.uid)
        let leaving = Task { try await reader.waitForTagToLeave() }
        card.remove()
        try await leaving.value
        let waiting = Task { () async -> ISO15693Error? in
            do throws(ISO15693Error) { _ = try await reader.waitForTag() } catch { return error }
            return nil
        }
        try await Task.sleep(for: .milliseconds(50))
        waiting.cancel()
        #expect(await waiting.value == .cancelled)
        await reader.close()
    }

    /// Waits for a tag, and gives the error, where there is one.
    private static func waitForTag(_ reader: PCSCTransport) async -> ISO15693Error? {
        do throws(ISO15693Error) { _ = try await reader.waitForTag() } catch { return error }
        return nil
    }

    @Test(
        "a wait that is cancelled ends at once, although another waits too, and the other goes on",
        .timeLimit(.minutes(1)))
    func severalWaits() async throws {
        let reader = PCSCTransport()
        #expect(await eventually { ((try? await reader.list()) ?? []).isEmpty == false })
        let first = Task { await Self.waitForTag(reader) }
        try await Task.sleep(for: .milliseconds(50))
        let second = Task { await Self.waitForTag(reader) }
        try await Task.sleep(for: .milliseconds(50))
        // Requests don't stand behind the waits either.
        let begin = ContinuousClock.now
        #expect(await error(reader) == .noTag)
        second.cancel()
        #expect(await second.value == .cancelled)
        #expect(ContinuousClock.now - begin < .seconds(20))
        let third = Task { try await reader.waitForTag() }
        try await Task.sleep(for: .milliseconds(50))
        first.cancel()
        #expect(await first.value == .cancelled)
        // A cancellation that goes on too long would end the wait that is left.
        try await Task.sleep(for: .milliseconds(100))
        let card = try await present()
        #expect(try await third.value == EmulatedTag.counting.uid)
        await reader.close()
        withExtendedLifetime(card) {}
    }

    @Test(
        "while a tag is waited for to leave others may ask it, and no session of theirs stays open",
        .timeLimit(.minutes(1)))
    func askedWhileLeaving() async throws {
        let card = try await present()
        let reader = PCSCTransport()
        #expect(try await reader.uid() == EmulatedTag.counting.uid)
        let leaving = Task { try await reader.waitForTagToLeave() }
        try await Task.sleep(for: .milliseconds(100))
        #expect(try await reader.memory() == EmulatedTag.counting.memory)
        #expect(await eventually { card.commands.last == [0xFF, 0xC2, 0x00, 0x00, 0x02, 0x82, 0x00, 0x00] })
        card.remove()
        try await leaving.value
        await reader.close()
    }

    @Test("a tag has left, too, when another is in its place")
    func replaced() async throws {
        let card = try await present()
        let reader = PCSCTransport()
        #expect(try await reader.uid() == EmulatedTag.counting.uid)
        // Within a session the reader does not look for itself.
        card.change { $0.tag.uid[7] ^= 1 }
        try await reader.waitForTagToLeave()
        #expect(try await reader.waitForTag() != EmulatedTag.counting.uid)
        await reader.close()
        withExtendedLifetime(card) {}
    }

    @Test("without pcscd that is said, and it is found again when it is back")
    func noService() async throws {
        let reader = PCSCTransport()
        #expect(await eventually { ((try? await reader.list()) ?? []).isEmpty == false })
        await service.stop()
        #expect(await error(reader) == .noPCSCService)
        try service.start()
        #expect(await eventually { await error(reader) == .noTag })
        await reader.close()
    }

    @Test("readers are listed with what is known of them")
    func list() async throws {
        let readers = NFCReaders(helper: Helper.path)
        let name = service.reader
        let card = try await present()
        let found = await readers.list(configured: "pcsc:")
        #expect(found.first?.reader == "pcsc:" && found.first?.name == name && found.first?.iso15693 == true)
        #expect(found.contains { $0.reader == "pcsc:\(name)" && $0.iso15693 == true && $0.reason == nil })
        card.remove()
        #expect(
            await eventually {
                await readers.list(configured: nil).contains {
                    $0.reader == "pcsc:\(name)" && $0.iso15693 == nil && $0.reason != nil
                }
            })
        let absent = await readers.list(configured: "pcsc:No Such Reader").first
        #expect(absent?.code == "no_reader" && absent?.iso15693 == nil)
    }
}
