import EmulatedReader
import Foundation
import NFCPipe
import TestSupport
import Testing

@testable import ISO15693Reader

/// What a reader and a tag may do, through the unmodified libnfc and the real helper program.
@Suite struct LibNFCTests {
    @Test("a whole memory is read through libnfc as the tag has it, with frames the vendor's own application sends")
    func read() async throws {
        let bench = try Bench()
        #expect(try await bench.reader.uid() == EmulatedTag.counting.uid)
        #expect(try await bench.reader.exchange(.patchInformation) == EmulatedTag.counting.patchInformation)
        #expect(try await bench.reader.exchange(.systemInformation).count == 14)
        #expect(try await bench.reader.memory() == EmulatedTag.counting.memory)
        #expect(try await bench.reader.exchange(.readSingleBlock(2)) == Array(EmulatedTag.counting.memory[16..<24]))
        #expect(bench.emulated.frames.contains([0x02, 0xA1, 0x07]))
        #expect(bench.emulated.frames.contains([0x02, 0x23, 0x03, 0x02]))
        #expect(bench.emulated.frames.contains([0x02, 0x23, 0x2A, 0x00]))
        await bench.reader.close()
    }

    @Test("without a tag every request says so, and a tag that is put there is read by the same reader")
    func noTag() async throws {
        let bench = try Bench(nil)
        for request in [ISO15693Request.inventory, .patchInformation, .readSingleBlock(0)] {
            #expect(await bench.error(request) == .noTag)
        }
        bench.emulated.change { $0.tag = .counting }
        #expect(try await bench.reader.memory() == EmulatedTag.counting.memory)
        await bench.reader.close()
    }

    @Test("a PN532 as it is sold says that it cannot read ISO 15693, with or without a tag")
    func plain() async throws {
        for tag in [nil, EmulatedTag.counting] {
            let bench = try Bench(tag)
            bench.emulated.change { $0.isPlain = true }
            #expect(await bench.error(.inventory) == .cannotSpeakISO15693)
            #expect(bench.reader.helperIdentifier == nil)
        }
    }

    @Test("a block that is not answered, damaged or refused has its own error, and the next request is answered")
    func blocks() async throws {
        let bench = try Bench()
        bench.emulated.change { $0.tag?.silentBlocks = [4] }
        #expect(await bench.error(.readMultipleBlocks(first: 3, count: 3)) == .tagSilent)
        bench.emulated.change { $0.tag?.damagedBlocks = [7] }
        #expect(await bench.error(.readMultipleBlocks(first: 6, count: 3)) == .badCRC)
        bench.emulated.change { $0.tag?.refusedBlocks = [9: 0x0F] }
        #expect(await bench.error(.readSingleBlock(9)) == .tag(code: 0x0F))
        #expect(await bench.error(.readMultipleBlocks(first: 0, count: 4)) == .tag(code: 0x10))
        #expect(try await bench.reader.exchange(.readSingleBlock(10)) == Array(EmulatedTag.counting.memory[80..<88]))
        await bench.reader.close()
    }

    @Test("a tag that is taken away in the middle has left; put back, it is read")
    func leaving() async throws {
        let bench = try Bench()
        bench.emulated.change { $0.tag?.leavesAfter = 5 }
        var errors: [ISO15693Error] = []
        do throws(ISO15693Error) { _ = try await bench.reader.memory() } catch { errors.append(error) }
        #expect(errors == [.tagLeft])
        #expect(await bench.error(.inventory) == .noTag)
        bench.emulated.change { $0.tag = .counting }
        #expect(try await bench.reader.memory() == EmulatedTag.counting.memory)
        await bench.reader.close()
    }

    @Test("an answer with a wrong checksum on the serial line is the reader's error, and may be asked again")
    func garbled() async throws {
        let bench = try Bench()
        bench.emulated.change { $0.garbledExchanges = [2] }
        #expect(await bench.error(.inventory) == nil)
        let error = await bench.error(.inventory)
        guard case .reader(-1, let name)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(name.contains("NFC_EIO") && error?.mayPass == true)
        #expect(try await bench.reader.memory() == EmulatedTag.counting.memory)
        await bench.reader.close()
    }

    @Test("a reader that acknowledges and never answers is silent in its time, and answers the next request")
    func hanging() async throws {
        let bench = try Bench(answerTime: .milliseconds(200))
        bench.emulated.change { $0.hangingExchanges = [2] }
        #expect(await bench.error(.inventory) == nil)
        #expect(await bench.error(.inventory) == .readerSilent)
        #expect(await bench.error(.inventory) == nil)
        await bench.reader.close()
    }

    @Test("a reader that does not acknowledge is silent, and is opened when it does again")
    func noAcknowledgement() async throws {
        let bench = try Bench()
        bench.emulated.change { $0.acknowledges = false }
        #expect(await bench.error(.inventory) == .readerSilent)
        bench.emulated.change { $0.acknowledges = true }
        #expect(await bench.error(.inventory) == nil)
        await bench.reader.close()
    }

    @Test("a slow reader is waited for")
    func slow() async throws {
        let bench = try Bench()
        bench.emulated.change { $0.delay = 40 }
        #expect(try await bench.reader.exchange(.readSingleBlock(42)) == Array(EmulatedTag.counting.memory[336...]))
        await bench.reader.close()
    }

    @Test("a status at which libnfc aborts its process is a named error, and the next scan works")
    func abort() async throws {
        let bench = try Bench()
        #expect(await bench.error(.inventory) == nil)
        let first = try #require(bench.reader.helperIdentifier)
        bench.emulated.change { $0.status = 0x80 }
        #expect(await bench.error(.inventory) == .helperDied(signal: SIGABRT))
        bench.emulated.change { $0.status = 0 }
        #expect(try await bench.reader.memory() == EmulatedTag.counting.memory)
        #expect(!isThere(first))
        await bench.reader.close()
    }

    @Test("an error of the reader's chip has libnfc's number and name")
    func chip() async throws {
        let bench = try Bench()
        bench.emulated.change { $0.status = 0x0D }
        guard case .reader(-90, let name)? = await bench.error(.inventory) else {
            Issue.record("another error")
            return
        }
        #expect(name.contains("NFC_ECHIP"))
        await bench.reader.close()
    }

    @Test("a reader that is unplugged is gone; plugged in again, it is read")
    func unplugged() async throws {
        let bench = try Bench()
        bench.emulated.change { $0.vanishesAt = 4 }
        var errors: [ISO15693Error] = []
        do throws(ISO15693Error) { _ = try await bench.reader.memory() } catch { errors.append(error) }
        #expect(errors == [.portGone])
        bench.emulated.change { $0.vanishesAt = nil }
        guard case .noReader? = await bench.error(.inventory) else {
            Issue.record("a port that is gone is still there")
            return
        }
        try bench.emulated.plugIn()
        #expect(try await bench.reader.memory() == EmulatedTag.counting.memory)
        await bench.reader.close()
    }

    @Test("promise 12: only requests that read are sent to a tag, whoever asks the helper program")
    func readOnly() async throws {
        let emulated = try EmulatedReader(tag: .counting)
        let talk = try HelperTalk()
        #expect(try talk.ask(.open(reader: emulated.setting)) == .opened(speaksISO15693: true, name: emulated.openName))
        let permitted: [[UInt8]] = [
            [0x26, 0x01, 0x00], [0x02, 0x20, 0x2A], [0x02, 0x23, 0x00, 0x02], [0x02, 0x2B], [0x02, 0xA1, 0x07],
        ]
        emulated.forgetFrames()
        for command in UInt8.min...UInt8.max {
            for (flags, rest) in [(0x02, [0x07]), (0x02, []), (0x22, [0x07]), (0x42, [0, 0, 0])] as [(UInt8, [UInt8])] {
                let frame = [flags, command] + rest
                if permitted.contains(frame) || [0x20, 0xA1].contains(command) && flags == 0x02 && rest.count == 1 {
                    continue
                }
                #expect(try talk.ask(.exchange(frame: frame, milliseconds: 100)) == .failed(.refused))
            }
        }
        // A sensor's maker is Texas Instruments or Abbott.
        for maker in UInt8.min...UInt8.max where maker != 0x07 && maker != 0x7A {
            let reply = try talk.ask(.exchange(frame: [0x02, 0xA1, maker], milliseconds: 100))
            #expect(reply == .failed(.refused), "\(maker)")
        }
        #expect(emulated.frames.isEmpty)
        for frame in permitted {
            guard case .answer = try talk.ask(.exchange(frame: frame, milliseconds: 1000)) else {
                Issue.record("\(frame) is not forwarded")
                continue
            }
        }
        #expect(emulated.frames == permitted)
        emulated.change { $0.tag?.uid[1] = 0x7A }
        guard case .answer = try talk.ask(.exchange(frame: [0x02, 0xA1, 0x7A], milliseconds: 1000)) else {
            Issue.record("the patch information of Abbott's chips is not asked for")
            return
        }
    }

    @Test("a cancelled task asks nothing")
    func cancelled() async throws {
        let bench = try Bench()
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return await bench.error(.inventory)
        }
        task.cancel()
        #expect(await task.value == .cancelled)
        #expect(bench.emulated.frames.isEmpty)
    }

    @Test("a tag is waited for, and waited until it leaves")
    func presence() async throws {
        let bench = try Bench(nil)
        let coming = Task { try await bench.reader.waitForTag() }
        #expect(await eventually { bench.emulated.frames.count >= 2 })
        bench.emulated.change { $0.tag = .counting }
        #expect(try await coming.value == EmulatedTag.counting.uid)
        let leaving = Task { try await bench.reader.waitForTagToLeave() }
        let asked = bench.emulated.frames.count
        #expect(await eventually { bench.emulated.frames.count > asked })
        bench.emulated.change { $0.tag = nil }
        try await leaving.value
        let waiting = Task { () async -> ISO15693Error? in
            do throws(ISO15693Error) { _ = try await bench.reader.waitForTag() } catch { return error }
            return nil
        }
        #expect(await eventually { bench.emulated.exchanges >= 3 })
        waiting.cancel()
        #expect(await waiting.value == .cancelled)
        await bench.reader.close()
    }

    @Test("a tag has left, too, when another is in its place; one that is missed once has not")
    func replaced() async throws {
        let bench = try Bench()
        #expect(try await bench.reader.uid() == EmulatedTag.counting.uid)
        var other = EmulatedTag.counting
        other.uid[7] ^= 1
        // It comes before the wait begins.
        bench.emulated.change { [other] in $0.tag = other }
        try await bench.reader.waitForTagToLeave()
        #expect(try await bench.reader.uid() == other.uid)
        let leaving = Task { try await bench.reader.waitForTagToLeave() }
        #expect(await eventually { bench.emulated.exchanges >= 2 })
        bench.emulated.change { $0.tag = nil }
        #expect(await eventually { bench.emulated.exchanges >= 1 })
        bench.emulated.change { [other] in $0.tag = other }
        #expect(await eventually { bench.emulated.exchanges >= 2 })
        bench.emulated.change { $0.tag = .counting }
        try await leaving.value
        #expect(try await bench.reader.uid() == EmulatedTag.counting.uid)
        await bench.reader.close()
    }

    @Test("waiting for a tag ends with the reader's own error")
    func presenceError() async throws {
        let bench = try Bench(nil)
        let waiting = Task { () async -> ISO15693Error? in
            do throws(ISO15693Error) { _ = try await bench.reader.waitForTag() } catch { return error }
            return nil
        }
        #expect(await eventually { bench.emulated.frames.count >= 1 })
        bench.emulated.unplug()
        #expect(await waiting.value == .portGone)
    }
}
