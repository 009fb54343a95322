import Testing

@testable import HealthDevices

@Suite struct OmronRowTests {
    @Test("HEM-6320T and 6323T have one user, HEM-6321T and 6324T two (hass-omron's catalogue)")
    func users() {
        func users(_ number: String) -> [Int] {
            Catalogue().models.filter { $0.name.contains(number) }.compactMap { $0.omronMemory?.users.count }
        }
        #expect(users("6320T") == [1] && users("6323T") == [1])
        #expect(users("6321T") == [2] && users("6324T") == [2])
    }
}
