import EmulatedReader
import NFCPipe
import Testing

@testable import ISO15693Reader

/// Through the unmodified libnfc and the real helper program.
@Suite struct LibNFCTests {
    @Test("a whole memory is read through libnfc as the tag has it")
    func read() async throws {
        let emulated = try EmulatedReader(tag: .counting)
        let reader = try LibNFCTransport(#require(LibNFCReader(emulated.setting)))
        #expect(try await reader.uid() == EmulatedTag.counting.uid)
        #expect(try await reader.exchange(.patchInformation) == EmulatedTag.counting.patchInformation)
        var memory: [UInt8] = []
        for first in stride(from: UInt8(0), to: 43, by: 3) {
            memory += try await reader.exchange(.readMultipleBlocks(first: first, count: min(3, 43 - first)))
        }
        #expect(memory == EmulatedTag.counting.memory)
        #expect(try await reader.exchange(.readSingleBlock(2)) == Array(memory[16..<24]))
        await reader.close()
    }
}
